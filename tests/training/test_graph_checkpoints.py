"""Checkpoints of graphs made by hand: one that goes on ends as one without a break, to the bit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import running_cluster
from tests.fakes import SpanData
from tests.training.test_checkpoints import forget, losing, losing_at_the_start
from tracer.model.graph_json import graph_file_from_json
from tracer.model.metric import Metric
from tracer.ops.tensor_file import TensorFile
from tracer.passes.placer import BY_RULE
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.training.checkpoint import Checkpoints
from tracer.training.graph_trainer import GraphTrainer, variables_of_steps
from tracer.training.line import NO_LINE, Line
from tracer.training.trainer import Fit, sessions_of
from tracer.workloads.graph_workload import GraphWorkload
from tracer.workloads.model_parallel_mlp import workload

GOLDEN = Path(__file__).parent.parent / "golden"
VARIABLES = ["b1", "b2", "global_step", "w1", "w2"]


def of_golden(name: str, ps: int) -> GraphWorkload:
    """A perceptron as TF's client made it, on as many parameter servers as it names."""
    raw = json.loads((GOLDEN / f"{name}.json").read_text())
    return GraphWorkload(graph_file_from_json({**raw, "devices": {"ps": ps, "worker": 2}}))


GRAPHS: dict[str, Callable[[], GraphWorkload]] = {
    "ref variables": lambda: of_golden("viii_mlp_momentum_2ps__grpc", 2),
    "resource variables": lambda: of_golden("viii_mlp_resource_1ps__grpc", 1),
    "fed by itself": lambda: workload(batch=16, hidden=8),
}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> GraphWorkload:
    return GRAPHS[request.param]()


def run(
    graph: GraphWorkload,
    steps: int,
    checkpoints: Checkpoints | None = None,
    line_of: Callable[[MasterInterface], Line] = lambda _: NO_LINE,
) -> tuple[list[Any], Metric | None, list[SpanData]]:
    """Values of the last step, what they were judged as, spans."""
    given = graph.given
    variables = variables_of_steps(given, BY_RULE)
    folder = checkpoints.folder if checkpoints else None
    with running_cluster("near", given.cluster, checkpoints=folder) as cluster:
        master = cluster.master(given.client_device.task_name)
        fit = Fit(steps, checkpoints=checkpoints)
        open_session = sessions_of(master)
        trainer = GraphTrainer(open_session, graph, variables, cluster.tracing, fit)
        try:
            values, judged = trainer.run(line_of(master))
        finally:
            trainer.close()
        assert cluster.recording is not None
        spans = cluster.recording.spans()
    return [None if value is None else value.tolist() for value in values], judged, spans


def test_a_graph_that_goes_on_from_a_checkpoint_ends_as_one_without_a_break(
    graph: GraphWorkload, tmp_path: Path
) -> None:
    whole, judged, _ = run(graph, 7)
    run(graph, 4, Checkpoints(tmp_path))
    assert Checkpoints(tmp_path).latest() == 4
    values, rejudged, spans = run(graph, 7, Checkpoints(tmp_path))
    assert (values, rejudged) == (whole, judged)
    steps = [span.step for span in spans if span.kind == "session.run" and span.step]
    assert steps == [5, 6, 7]


def test_a_graph_that_loses_variables_goes_back_to_the_last_checkpoint(
    graph: GraphWorkload, tmp_path: Path
) -> None:
    whole, judged, _ = run(graph, 7)
    checkpoints = Checkpoints(tmp_path, every=2)
    values, rejudged, spans = run(graph, 7, checkpoints, losing(6, forget))
    assert (values, rejudged) == (whole, judged)
    (recover,) = [span.attributes for span in spans if span.kind == "session.recover"]
    assert (recover["vizdist.lost_step"], recover["vizdist.resumed_step"]) == (6, 5)
    (restore,) = [span.attributes for span in spans if span.kind == "checkpoint.restore"]
    assert restore["vizdist.checkpoint.step"] == 4


def test_each_parameter_server_saves_the_variables_that_live_there(tmp_path: Path) -> None:
    graph = GRAPHS["ref variables"]()
    run(graph, 1, Checkpoints(tmp_path))
    names = [TensorFile(path).names for path in Checkpoints(tmp_path).files(1)]
    assert sorted({name.split("/")[0] for every in names for name in every}) == VARIABLES
    assert {len(set(every) & {"w1", "w2", "b1", "b2"}) for every in names} == {2}


def test_a_loss_that_costs_a_graph_no_variable_costs_it_no_step() -> None:
    graph = GRAPHS["fed by itself"]()
    whole, judged, _ = run(graph, 6)
    values, rejudged, spans = run(graph, 6, line_of=losing(4, lambda _: None))
    assert (values, rejudged) == (whole, judged)
    (recover,) = [span.attributes for span in spans if span.kind == "session.recover"]
    assert recover["vizdist.resumed_step"] == 4


def test_without_a_checkpoint_a_graph_ends_with_the_names_of_what_it_lost() -> None:
    graph = GRAPHS["ref variables"]()
    with pytest.raises(StepError, match=r"are gone: .*w1, .*--checkpoint DIR") as caught:
        run(graph, 6, line_of=losing(4, forget))
    assert caught.value.code == "FAILED_PRECONDITION"


def test_variables_of_a_graph_lost_before_its_first_step_are_made_anew() -> None:
    """Nothing is undone by that: `init` runs again."""
    graph, line_of = (
        GRAPHS["resource variables"](),
        losing_at_the_start("UNAVAILABLE", "the connection ended"),
    )
    assert run(graph, 3, line_of=line_of)[0] == run(graph, 3)[0]


def test_a_variable_that_steps_do_not_use_is_neither_saved_nor_missed() -> None:
    given = GRAPHS["resource variables"]().given
    fetched = replace(given.run, fetches=("w1/Read/ReadVariableOp:0",), targets=())
    found = variables_of_steps(replace(given, run=fetched), BY_RULE)
    assert [node.name for node in found.nodes] == ["w1"]
