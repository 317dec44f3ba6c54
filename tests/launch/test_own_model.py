"""A model of the user's own through `tracer run`, with real processes."""

import json
import math
import re
import textwrap
from pathlib import Path

import pytest

from tests.launch.commands import manifest, tracer
from vizdist.store.trace import Trace, open_trace

pytestmark = pytest.mark.cluster

README = Path(__file__).parent.parent.parent / "README.md"
NINE = """
    import torch
    from torch import nn

    def make(batch: int = 4):
        print("nine rows")
        x = torch.linspace(-1, 1, 9).reshape(9, 1)
        return {"module": nn.Linear(1, 1), "loss": nn.functional.mse_loss, "data": (x, 2 * x),
                "batch": batch, "optimizer": torch.optim.SGD}

    def falls():
        def loss(outputs, y):
            raise RuntimeError("no such loss")
        return {**make(), "loss": loss}

    def ragged():
        rows = [torch.ones(n, 1) for n in range(1, 9)]
        made = make()
        del made["batch"]
        return {**made, "data": [(x, x) for x in rows]}

    class Chatty(list):
        def __iter__(self):
            print("a pass begins")
            return super().__iter__()

    def chatty():
        made = ragged()
        return {**made, "data": Chatty(made["data"])}
"""


@pytest.fixture
def nine(tmp_path: Path) -> Path:
    (tmp_path / "nine.py").write_text(textwrap.dedent(NINE))
    return tmp_path


def signatures(trace: Trace) -> list[tuple[int, str]]:
    """(step, signature) of every capture, by time."""
    captures = trace.spans(kinds=["graph.capture"])
    return [
        (int(step), str(trace.span(int(span)).attributes["vizdist.signature"]))
        for step, span in zip(captures.step, captures.span, strict=True)
    ]


def test_the_example_of_the_readme_trains_as_it_says(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    section = text.partition("## A model of your own")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (command,) = re.findall(r"^tracer (run waves:make .*)$", section, re.MULTILINE)
    assert len([line for line in example.splitlines() if line]) <= 10
    (tmp_path / "waves.py").write_text(example)
    done = tracer(*command.split(), "--steps", "60", "--json", "--out", "t", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["loss"] < 0.1
    assert printed["accuracy"] is None
    options = manifest(tmp_path / "t")["options"]
    assert {"width": "64", "rate": "0.01"}.items() <= options.items()


@pytest.mark.slow
def test_nine_rows_give_batches_of_four_four_and_one(nine: Path) -> None:
    flags = ("--strategy", "one_device", "--steps", "6", "--json", "--out", "t")
    done = tracer("run", "nine:make", *flags, cwd=nine)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1  # what the factory prints goes elsewhere
    trace = open_trace(nine / "t")
    batches = trace.spans(kinds=["data.next"])
    rows = [trace.span(int(span)).attributes["vizdist.batch"] for span in batches.span]
    assert rows == [4, 4, 1, 4, 4, 1]
    assert signatures(trace) == [
        (0, "train x float32[4,1], y float32[4,1]"),
        (3, "train x float32[1,1], y float32[1,1]"),
    ]


@pytest.mark.slow
def test_each_worker_captures_what_its_share_of_nine_rows_needs(nine: Path) -> None:
    flags = ("--strategy", "parameter_server_v1", "--workers", "2", "--steps", "6", "--json")
    done = tracer("run", "nine:make", *flags, "--out", "t", cwd=nine)
    assert done.returncode == 0, done.stderr
    assert math.isfinite(json.loads(done.stdout)["loss"])
    assert sorted(signatures(open_trace(nine / "t"))) == [
        (0, "train x float32[4,1], y float32[4,1]"),
        (0, "train x float32[4,1], y float32[4,1]"),
        (2, "train x float32[1,1], y float32[1,1]"),  # worker:0 has five rows, worker:1 four
    ]


@pytest.mark.slow
def test_many_signatures_are_named_in_a_warning(nine: Path) -> None:
    flags = ("--strategy", "one_device", "--steps", "8", "--out", "t", "--in-process")
    done = tracer("run", "nine:ragged", *flags, cwd=nine)
    assert done.returncode == 0, done.stderr
    assert "worker:0: its batches had 8 signatures" in done.stderr
    assert "x float32[6,1], y float32[6,1]; and 2 more" in done.stderr


def test_what_the_data_print_is_no_part_of_the_json(nine: Path) -> None:
    flags = ("--strategy", "one_device", "--steps", "9", "--json", "--out", "t", "--in-process")
    done = tracer("run", "nine:chatty", *flags, cwd=nine)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 9
    assert "a pass begins" in done.stderr


@pytest.mark.slow
def test_a_loss_that_raises_is_named_with_the_users_line(nine: Path) -> None:
    flags = ("--strategy", "one_device", "--out", "t")
    done = tracer("run", "nine:falls", *flags, cwd=nine)
    assert done.returncode == 1
    assert "worker:0: no such loss" in done.stderr
    assert re.search(r'nine.py", line \d+, in loss', done.stderr)


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ("nine:maek", "did you mean make"),
        pytest.param("nien:make", "did you mean nine", marks=pytest.mark.slow),
        pytest.param("nine:torch", "is a module; it must be a function", marks=pytest.mark.slow),
        ("nine:nn.Linear", "needs 'in_features'"),
    ],
)
def test_what_is_no_factory_exits_2_and_starts_nothing(
    nine: Path, workload: str, says: str
) -> None:
    done = tracer("run", workload, "--strategy", "one_device", "--out", "t", cwd=nine)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (nine / "t").exists()
