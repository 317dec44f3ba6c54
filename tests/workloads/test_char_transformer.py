"""char-transformer: real text that all Pythons share, and a loss that falls."""

import ast
import gc
import sysconfig
from pathlib import Path

import pytest
import torch

from tests.training.trained import eager, trained
from tests.workloads.learning import Learner
from tracer.model.refusal import Refusal
from tracer.workloads import char_transformer, docstrings
from tracer.workloads.docstrings import ALPHABET, MODULES, letters

WORKLOAD = char_transformer.workload()
SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]

#: of Python 3.11.7, 3.12.1 and 3.13.0; a patch release may edit a docstring or two
LETTERS = 204_264


def text_of(numbers: torch.Tensor) -> str:
    return "".join(ALPHABET[number] for number in numbers.tolist())


@pytest.mark.parametrize("seed", SEEDS)
def test_its_loss_falls_from_that_of_a_guess_to_well_below(seed: int) -> None:
    learner = Learner(WORKLOAD, seed)
    learner.learn(100)
    assert learner.losses[0] > 4.4  # a guess among 96 letters: 4.56
    assert sum(learner.losses[-10:]) / 10 < 2.85
    assert learner.metric > 0.22  # the most frequent letter, the blank, makes 0.16


@pytest.mark.parametrize("strategy", ["one_device", "parameter_server_v1"])
def test_its_losses_are_those_of_eager_torch(strategy: str) -> None:
    small = char_transformer.workload(batch=4, context=16, layers=1)
    run = trained(small, strategy, 3)
    module = small.make_module(0)
    losses = eager(small, torch.optim.Adam(module.parameters(), 0.003), module, 3)
    assert run.fitted.losses == pytest.approx(losses, abs=1e-5)


def test_the_text_is_what_the_library_says_of_itself() -> None:
    kept, held_out = map(text_of, letters())
    assert "Return" in kept
    assert 0.95 < (len(kept) + len(held_out)) / LETTERS < 1.05
    assert 0.08 < len(held_out) / LETTERS < 0.2
    source = (Path(sysconfig.get_path("stdlib")) / "textwrap.py").read_text(encoding="utf-8")
    says = ast.get_docstring(ast.parse(source)) or ""
    assert says in kept + held_out


def test_whoever_parses_while_garbage_is_collected_disturbs_no_reading() -> None:
    """What a collection runs may parse, and every parser has one depth in Python 3.11.7."""

    def parse(_phase: str, _info: object) -> None:
        ast.parse("(1)")

    expected, threshold = list(docstrings.docstrings()), gc.get_threshold()
    gc.callbacks.append(parse)
    gc.set_threshold(100)
    try:
        assert list(docstrings.docstrings()) == expected
    finally:
        gc.callbacks.remove(parse)
        gc.set_threshold(*threshold)
    assert gc.isenabled()


def test_what_is_held_out_is_in_no_batch() -> None:
    kept, held_out = map(text_of, letters())
    assert not [text for text in held_out.split("\n\n") if len(text) > 200 and text in kept]


def test_workers_read_different_parts_and_one_seed_reads_the_same() -> None:
    first, again, other, further = (
        text_of(next(WORKLOAD.batches(seed, worker, 2))[0][0])
        for seed, worker in ((0, 0), (0, 0), (0, 1), (1, 0))
    )
    assert first == again
    assert len({first, other, further}) == 3
    half = len(letters()[0]) // 2 + 1
    assert first in text_of(letters()[0][:half])


def test_every_letter_is_to_be_told_from_those_before() -> None:
    x, y = next(WORKLOAD.batches(0, 0, 1))
    assert x.shape == y.shape == (16, 64)
    assert torch.equal(x[:, 1:], y[:, :-1])


def test_a_letter_to_come_does_not_change_what_is_said_before_it() -> None:
    module = WORKLOAD.make_module(0).eval()
    x, _ = next(WORKLOAD.batches(0, 0, 1))
    changed = x.clone()
    changed[:, 40:] = 1
    with torch.no_grad():
        before, after = module(x), module(changed)
    torch.testing.assert_close(before[:, :40], after[:, :40])
    assert not torch.allclose(before[:, 40:], after[:, 40:])


def test_an_excerpt_longer_than_the_text_is_refused() -> None:
    huge = char_transformer.workload(context=40_000)
    with pytest.raises(Refusal, match="40000 letters does not fit into a text of"):
        huge.evaluation()
    with pytest.raises(Refusal, match="or for fewer workers"):
        next(huge.batches(0, 0, 8))


def test_the_list_of_modules_has_no_doubles_and_all_are_there() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    assert len(set(MODULES)) == len(MODULES)
    assert all((library / name).is_file() for name in MODULES)


def test_a_python_without_sources_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(Refusal, match="run it with a Python that has them"):
        next(docstrings.docstrings())
