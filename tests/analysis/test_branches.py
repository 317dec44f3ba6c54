"""Which side of a cond ran, once or in each iteration of a loop, on the real runtime."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis.timed_run import Timed, timed_run
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from vizdist.analysis.branches import Branch, branches
from vizdist.analysis.mechanisms.one_step import OneStep
from vizdist.analysis.report import sentence_text
from vizdist.analysis.summary import summarise
from vizdist.store.trace import Trace

Decides = Callable[[GraphBuilder, Input, Input], Input]
ASIDE = "/job:worker/task:1"


def is_below_two(b: GraphBuilder, i: Input, _: Input) -> Input:
    return b.op("Less", i, b.const(2.0), name="below_two", T="float32")


def given(_b: GraphBuilder, _i: Input, pred: Input) -> Input:
    return pred


def looped(decides: Decides, pred: bool = True, is_one_sided: bool = False) -> Graph:
    """Three iterations; in each a cond doubles x on worker:1 or negates it here, or leaves it."""
    b = GraphBuilder()

    def doubled(x: Input) -> Input:
        with b.device(ASIDE):
            return b.op("AddV2", x, x, name="doubled", T="float32")

    def body(i: Input, x: Input) -> list[Input]:
        [x] = b.cond(
            decides(b, i, asked),
            lambda: doubled(x),
            lambda: x if is_one_sided else b.op("Neg", x, name="negated", T="float32"),
        )
        return [b.op("AddV2", i, b.const(1.0), T="float32"), x]

    with b.device("/job:worker/task:0"):
        limit, asked = b.const(3.0), b.const(pred, "bool", name="asked")
        _, out = b.while_loop(
            lambda i, _: b.op("Less", i, limit, T="float32"),
            body,
            [b.const(0.0), b.const(1.0)],
            name="loop",
        )
        b.op("Identity", out, name="out", T="float32")
    return b.graph()


def run(folder: Path, graph: Graph) -> Trace:
    return timed_run(folder, graph, "out:0", Timed({}, {}))


def branch_of(trace: Trace) -> Branch:
    [found] = branches(OneStep(trace, trace.step(1)))
    return found


def test_a_cond_in_a_loop_is_counted_by_iterations(tmp_path: Path) -> None:
    trace = run(tmp_path, looped(is_below_two))
    branch = branch_of(trace)
    assert (branch.predicate, branch.loop) == ("loop/below_two", "loop/while_context")
    assert branch.times == (1, 2)
    assert branch.sides == (["loop/cond/negated"], ["loop/cond/doubled"])
    assert branch.tasks == ["worker:0", "worker:1"]
    proof = [trace.span(span) for span in branch.spans]
    ran = [(one.name, one.iteration) for one in proof if "dead" not in one.flags]
    for turn, name in enumerate(("doubled", "doubled", "negated")):
        assert (f"loop/cond/{name}", turn) in ran
    assert {one.iteration for one in proof} == {0, 1, 2}, "the last one only ends the loop"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_summary_says_in_how_many_iterations_it_was_true(tmp_path: Path, lang: str) -> None:
    trace = run(tmp_path, looped(is_below_two))
    [said] = [one for one in summarise(trace).sentences if one.key.startswith("branch.")]
    text = sentence_text(said, "zh" if lang == "zh" else "en")
    assert ("true in 2 of 3 iterations" if lang == "en" else "3 次迭代用到谓词") in text
    assert text.index("doubled") < text.index("negated")


@pytest.mark.parametrize("pred", [True, False])
def test_a_predicate_from_outside_is_the_same_in_all_iterations(tmp_path: Path, pred: bool) -> None:
    branch = branch_of(run(tmp_path, looped(given, pred)))
    assert (branch.predicate, branch.times) == ("asked", (0, 3) if pred else (3, 0))


def test_a_side_that_only_hands_on_its_value_ran_where_the_other_was_passed_by(
    tmp_path: Path,
) -> None:
    trace = run(tmp_path, looped(is_below_two, is_one_sided=True))
    branch = branch_of(trace)
    assert (branch.times, branch.sides) == ((1, 2), ([], ["loop/cond/doubled"]))
    [said] = [one for one in summarise(trace).sentences if one.key == "branch.turns"]
    assert "loop/cond/doubled runs where it is true, nothing where it is false" in sentence_text(
        said, "en"
    )
