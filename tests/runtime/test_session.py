"""Sessions of one task without a cluster, callables, feeds that do not fit."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.fakes import check, recorded
from tracer.model.graph import Graph, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import read_graph_file
from tracer.model.step import trace_of_step
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.kernel import Kernel, OpContext
from tracer.ops.registry import TABLE
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import DirectSession, Tracing

GOLDEN = Path(__file__).parent.parent / "golden"


def scaled() -> Graph:
    """`y = x * 2` and its mean."""
    b = GraphBuilder()
    x = b.placeholder([3], name="x")
    y = b.op("Mul", x, b.const(2.0, name="two"), name="y", T="float32")
    b.op("Mean", y, b.const([0], "int32", name="axes"), name="mean", T="float32")
    return b.graph()


@pytest.mark.parametrize("executor", ["generated", "queue"])
@pytest.mark.parametrize(
    "case", ["i_recv_dedup", "ii_control_edge", "ii_control_and_data", "iii_diamond"]
)
def test_one_task_of_several_devices_gives_what_tensorflows_direct_session_gave(
    case: str, executor: str
) -> None:
    path = GOLDEN / f"{case}__direct.json"
    file = read_graph_file(path)
    feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
    devices = [f"cpu:{i}" for i in range(len(file.devices))]
    with DirectSession(file.graph, devices, executor=executor) as session:  # type: ignore[arg-type]
        got = session.run(file.run.names, feeds)
    expected = json.loads(path.read_text())["result"]
    for name, value in zip(file.run.names, got, strict=True):
        if expected[name] is not None:
            assert value.tolist() == pytest.approx(expected[name])


def test_a_callable_is_the_same_step_as_a_function_of_its_feeds() -> None:
    with DirectSession(scaled()) as session:
        step = session.make_callable(["y:0"], ["x:0"])
        (value,) = step(torch.tensor([1.0, 2.0, 3.0]))
        assert value is not None
        assert value.tolist() == [2.0, 4.0, 6.0]
        assert session.num_steps == 1


def test_a_feed_of_the_wrong_shape_is_refused_before_the_step() -> None:
    with DirectSession(scaled()) as session:
        with pytest.raises(StepError) as caught:
            session.run("y:0", {"x:0": torch.zeros(2)})
        assert caught.value.message == (
            "Cannot feed value of shape (2,) for Tensor x:0, which has shape (3,)"
        )
        assert session.num_steps == 0


def test_a_fetched_value_can_be_an_attribute_of_the_step() -> None:
    with recorded("worker:0") as recording:
        run = trace_of_step("test", "run", 0)
        tracing = Tracing(recording.recorder, run, lambda n: trace_of_step("test", "run", n))
        with DirectSession(scaled(), tracing=tracing) as session:
            session.run(["mean:0"], {"x:0": torch.ones(3)}, record={"vizdist.loss": "mean:0"})
        assert not check(recording.spans(at_end=True))
        (step,) = recording.of("session.run")
    assert step.attributes["vizdist.loss"] == 2.0
    assert step.attributes["vizdist.session.handle"] == session.handle


def test_two_sessions_of_one_process_share_nothing() -> None:
    b = GraphBuilder()
    v = b.op("VarHandleOp", name="v", dtype="float32", shape=[])
    b.op("AssignVariableOp", v, b.const(1.0), name="init", dtype="float32")
    b.op("ReadVariableOp", v, name="read", dtype="float32")
    with DirectSession(b.graph()) as first, DirectSession(b.graph()) as second:
        first.run("init")
        assert first.run("read:0").item() == 1.0
        with pytest.raises(StepError, match="uninitialized"):
            second.run("read:0")


def test_errors_name_the_task_as_rows_do() -> None:
    b = GraphBuilder()
    b.op("MatMul", b.const([[1.0]]), b.const([[1.0, 2.0], [3.0, 4.0]]), name="bad", T="float32")
    with DirectSession(b.graph()) as session, pytest.raises(StepError) as caught:
        session.run("bad:0")
    assert (caught.value.task, caught.value.node) == ("worker:0", "bad")


@pytest.mark.parametrize(("num_devices", "num_rendezvous"), [(1, 0), (2, 1)])
def test_a_step_in_which_nothing_is_sent_meets_nowhere(
    monkeypatch: pytest.MonkeyPatch, num_devices: int, num_rendezvous: int
) -> None:
    b = GraphBuilder()
    one = b.const([1.0], name="one")
    with b.device(f"/device:CPU:{num_devices - 1}"):
        b.op("Neg", one, name="minus", T="float32")
    running: list[int] = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        running.append(len(session.worker.rendezvous.running()))
        if len(running) == 2:
            raise ValueError("not today")
        return torch.neg(x)

    def bind(_node: Node, _context: OpContext) -> Kernel:
        return kernel

    monkeypatch.setitem(TABLE, "Neg", replace(TABLE["Neg"], bind=bind))
    with DirectSession(b.graph(), [f"cpu:{i}" for i in range(num_devices)]) as session:
        assert session.run("minus:0").tolist() == [-1.0]
        with pytest.raises(StepError, match="not today"):
            session.run("minus:0")
        assert session.run("minus:0").tolist() == [-1.0]
        assert session.worker.rendezvous.running() == []
    assert running == [num_rendezvous] * 3


def test_one_name_alone_is_one_fetch_or_feed_wherever_several_may_stand() -> None:
    threes = torch.full((3,), 3.0)
    with DirectSession(scaled()) as session:
        (made,) = session.make_callable("y:0", "x:0")(threes)
        part = session.partial_run_setup("y:0", "x:0")
        (parted,) = part.run("y:0", {"x:0": threes})
    assert made is not None
    assert parted is not None
    assert made.tolist() == parted.tolist() == [6.0, 6.0, 6.0]


class Unclosable(DirectSession):
    """Its master is lost when it closes."""

    def close(self) -> None:
        super().close()
        raise StepError("UNAVAILABLE", "the master is gone")


def test_what_went_wrong_inside_is_said_not_what_then_went_wrong_in_closing() -> None:
    with pytest.raises(ValueError, match="the root cause"), Unclosable(scaled()):
        raise ValueError("the root cause")
    with pytest.raises(StepError, match="the master is gone"), Unclosable(scaled()):
        pass
