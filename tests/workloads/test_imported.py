"""A workload of the user's own: found where Python would, refused with the user's own lines."""

import random
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tracer.model.option import OptionError
from tracer.workloads.factory import FactoryError
from tracer.workloads.registry import UnknownWorkload
from tracer.workloads.requested import Requested

SCRIPT = """
    import random

    import numpy
    import torch
    from torch import nn

    RATE = 0.1

    def make(width: int = 8, rate: float = RATE, last: bool = False, hook=None):
        torch.manual_seed  # a user may seed again; nobody must
        data = torch.randn(12, 3), torch.full((12, 1), random.random() + numpy.random.rand())
        model = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 1))
        return {"module": model, "loss": nn.functional.mse_loss, "data": data,
                "optimizer": torch.optim.SGD(model.parameters(), lr=rate)}

    def needs(width):
        return {}

    def fails():
        print("on the way")
        return inner()

    def inner():
        raise KeyError("no such column")

    def leaves():
        raise SystemExit(3)

    class Holder:
        make = staticmethod(make)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with modules of a user's; what was imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    known = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "waves.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "torn.py").write_text("def make(:\n    pass\n")
    (tmp_path / "needy.py").write_text("import no_such_package\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "deep.py").write_text("from waves import make\n")
    yield tmp_path
    for name in sys.modules.keys() - known.keys():
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["waves:make", "pack.deep:make", "waves:Holder.make"])
def test_a_factory_is_found_in_the_current_directory(name: str) -> None:
    workload = Requested.named(name).make({}, seed=0)
    assert next(workload.batches(0, 0, 1))[0].shape == (12, 3)
    assert workload.capture(0).signature.feeds[0][1].shape == (12, 3)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("waves:mak", "waves has no 'mak'; did you mean make"),
        ("wavs:make", "there is no module 'wavs'; did you mean waves"),
        ("pack.shallow:make", "there is no module 'pack.shallow'"),
        ("waves.py:make", "there is no module 'waves.py'"),
        ("waves:RATE", "waves:RATE is a float; it must be a function"),
        ("waves:", "'waves:' names no factory: write package.module:factory"),
        (":make", "names no factory"),
        ("../waves:make", "names no factory"),
        ("waves:needs", "needs 'width', which nothing gives it"),
        ("digits", "did you mean digits-mlp.* named package.module:factory"),
    ],
)
def test_a_name_that_leads_nowhere_says_where_to_go(name: str, says: str) -> None:
    with pytest.raises((FactoryError, UnknownWorkload), match=says):
        Requested.named(name)


@pytest.mark.usefixtures("here")
def test_an_exception_of_the_users_shows_the_users_lines_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(FactoryError) as refused:
        Requested.named("waves:fails").make({}, seed=0)
    lines = str(refused.value).splitlines()
    assert lines[0] == "waves:fails raised KeyError: 'no such column'"
    assert 'waves.py", line' in lines[1]
    assert "in fails" in lines[1]
    assert "in inner" in lines[3 if "^" not in lines[3] else 4]
    assert not [line for line in lines if "tracer" in line or "importlib" in line]
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "on the way\n")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("torn:make", r'(?s)importing torn raised .*torn.py", line 1.*SyntaxError'),
        ("needy:make", r"(?s)ModuleNotFoundError: No module named 'no_such_package'.*needy.py"),
    ],
)
def test_a_module_that_cannot_be_imported_shows_why(name: str, says: str) -> None:
    with pytest.raises(FactoryError, match=says):
        Requested.named(name)


@pytest.mark.usefixtures("here")
def test_a_factory_that_ends_the_process_is_refused() -> None:
    with pytest.raises(FactoryError, match="waves:leaves raised SystemExit: 3"):
        Requested.named("waves:leaves").make({}, seed=0)


@pytest.mark.usefixtures("here")
def test_the_parameters_of_a_factory_are_its_options() -> None:
    requested = Requested.named("waves:make")
    assert {name: option.type for name, option in requested.options.items()} == {
        "width": "int",
        "rate": "float",
        "last": "bool",
    }
    workload = requested.make({"width": "5", "rate": "0.5"}, seed=0)
    assert dict(workload.make_module(0).named_parameters())["0.weight"].shape == (5, 3)
    with pytest.raises(OptionError, match="last must be true or false"):
        requested.make({"last": "yes"}, seed=0)


@pytest.mark.usefixtures("here")
def test_what_a_factory_draws_at_random_depends_on_the_seed_alone() -> None:
    def drawn(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        workload = Requested.named("waves:make").make({}, seed)
        return next(workload.batches(0, 0, 1))[1], next(workload.make_module(0).parameters())

    one, same, other = drawn(3), drawn(3), drawn(4)
    assert all(map(torch.equal, one, same))
    assert not any(map(torch.equal, one, other))


@pytest.mark.usefixtures("here")
def test_making_a_workload_leaves_the_callers_random_numbers_alone() -> None:
    state, plain, numpy_state = (
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state(legacy=False)["state"]["key"],
    )
    Requested.named("waves:make").make({}, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == plain
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], numpy_state)


def test_only_the_command_line_leads_to_an_import_of_the_users() -> None:
    """Neither a page nor a message of the cluster can name a module."""
    root = Path(__file__).parent.parent.parent
    sources = [path for room in ("tracer", "vizdist") for path in (root / room).rglob("*.py")]
    doors = ("workloads.imported", "workloads.requested")
    using = {
        str(path.relative_to(root))
        for path in sources
        if any(f"from tracer.{door} import" in path.read_text(encoding="utf-8") for door in doors)
    }
    assert using == {"tracer/cli.py", "tracer/workloads/requested.py"}
