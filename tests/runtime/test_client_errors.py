"""What TensorFlow's client and runtime refuse, attempt by attempt (golden/xiii_client_errors.json).

A refusal of TensorFlow's client has no code; here it is INVALID_ARGUMENT, with TensorFlow's words
first. One of its runtime has its code. What TensorFlow accepts is accepted.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.clusters import running_cluster
from tests.runtime.graphs import CLUSTER
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.passes.placer import BY_RULE, Placer
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import DirectSession, Session

ATTEMPTS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "golden" / "xiii_client_errors.json").read_text()
)["attempts"]

Open = Callable[[Graph], Session]
Attempt = Callable[[Session], object]


def run_closed(session: Session) -> None:
    session.close()
    session.run("nofeed:0")


PAIR = torch.tensor([1.0, 2.0])

#: attempt → what is run; `a` on ps:0 is the fed `x`
CALLS: dict[str, Attempt] = {
    "fetch 'nope:0'": lambda s: s.run("nope:0"),
    "fetch 'a:7'": lambda s: s.run("a:7", {"x:0": PAIR}),
    "fetch op name 'nope'": lambda s: s.run("nope"),
    "feed 'nope:0'": lambda s: s.run("a:0", {"nope:0": PAIR}),
    "feed wrong shape": lambda s: s.run("a:0", {"x:0": torch.zeros(3)}),
    "feed a tensor the fetch does not need": lambda s: s.run("nofeed:0", {"x:0": PAIR}),
    "fetch None": lambda s: s.run(None),  # type: ignore[arg-type]
    "same tensor fed twice (by name and object)": lambda s: s.run("a:0", {"x:0": PAIR, "x": PAIR}),
    "run after close": run_closed,
}

#: device attempts: label → the device of `bad`, by runtime
DEVICES = {
    "device /job:nosuch": {"grpc": "/job:nosuch/task:0", "direct": "/job:nosuch/task:0"},
    "device of a missing task/index": {"grpc": "/job:worker/task:9", "direct": "/device:CPU:9"},
    "device GPU:0 with no GPU, soft placement off": {
        "grpc": "/device:GPU:0",
        "direct": "/device:GPU:0",
    },
}

#: attempts that cannot be made here, and why
OTHERWISE = {
    "fetch tensor of another graph": "tensors are named, so one of another graph is a name",
    "feed tensor of another graph": "likewise",
    "feed wrong type": "feeds are tensors; see the test of values that are none",
    "feed an unfeedable tensor": "every tensor may be fed",
}


def placeholder_and_constant(at: str) -> Graph:
    b = GraphBuilder()
    with b.device(at):
        x = b.placeholder([2], name="x")
        b.op("Identity", x, name="a", T="float32")
        b.const(1.0, name="nofeed")
    return b.graph()


def fine_and_bad(device: str) -> Graph:
    b = GraphBuilder()
    b.const(1.0, name="fine")
    with b.device(device):
        b.const(1.0, name="bad")
    return b.graph()


Runtime = tuple[str, Open]  #: as the golden file calls it, and how a session is opened


@contextmanager
def running(kind: str, placer: Placer = BY_RULE) -> Iterator[Runtime]:
    with ExitStack() as stack:
        if kind == "direct":
            make = partial(DirectSession, devices=["cpu:0", "cpu:1", "cpu:2"], placer=placer)
            yield "direct", lambda graph: stack.enter_context(make(graph))
            return
        cluster = stack.enter_context(running_cluster(kind, CLUSTER, placer=placer))
        yield "grpc", cluster.session


@pytest.fixture(params=["near", "grpc", "direct"])
def opened(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with running(request.param) as runtime:
        yield runtime


def golden(runtime: str, attempt: str) -> dict[str, Any]:
    (row,) = (r for r in ATTEMPTS if (r["runtime"], r["attempt"]) == (runtime, attempt))
    return row


def test_every_attempt_of_the_golden_file_is_made_or_said_why_not() -> None:
    made = {*CALLS, *OTHERWISE}
    for label in DEVICES:
        made |= {f"{label}: {what}" for what in ("fetch the bad node", FETCH_FINE, SOFT)}
    assert {row["attempt"] for row in ATTEMPTS} == made


FETCH_FINE = "fetch another, healthy node of the same graph"
SOFT = "soft placement on"


@pytest.mark.parametrize("attempt", CALLS)
def test_what_tensorflows_client_refuses_is_refused_in_its_words(
    opened: tuple[str, Open], attempt: str
) -> None:
    runtime, open_session = opened
    row = golden(runtime, attempt)
    at = "/job:ps/task:0" if runtime == "grpc" else "/device:CPU:0"
    session = open_session(placeholder_and_constant(at))
    if row.get("outcome") == "no error":
        CALLS[attempt](session)
        return
    with pytest.raises(StepError) as caught:
        CALLS[attempt](session)
    closed = attempt == "run after close"
    assert caught.value.code == ("FAILED_PRECONDITION" if closed else "INVALID_ARGUMENT")
    assert caught.value.message.startswith(row["message"].removesuffix('")'))
    assert session.num_steps == 0


@pytest.mark.parametrize("label", DEVICES)
@pytest.mark.parametrize("fetch", ["bad", "fine"])
def test_a_device_that_is_not_there_fails_the_whole_graph(
    opened: tuple[str, Open], label: str, fetch: str
) -> None:
    runtime, open_session = opened
    what = "fetch the bad node" if fetch == "bad" else FETCH_FINE
    row = golden(runtime, f"{label}: {what}")
    with pytest.raises(StepError) as caught:
        open_session(fine_and_bad(DEVICES[label][runtime])).run(f"{fetch}:0")
    assert (row["error_code"], caught.value.code) == (3, "INVALID_ARGUMENT")
    assert caught.value.message.startswith("Cannot assign a device for operation bad")
    _, _, devices = row["message"].partition("available devices are [ ")
    assert f"available devices are [ {devices.partition(' ]')[0]} ]" in caught.value.message


@pytest.mark.parametrize("label", DEVICES)
@pytest.mark.parametrize("kind", ["near", "grpc", "direct"])
def test_soft_placement_saves_a_device_that_is_not_there_but_no_task(kind: str, label: str) -> None:
    with running(kind, Placer(soft=True)) as (runtime, open_session):
        row = golden(runtime, f"{label}: {SOFT}")
        graph = fine_and_bad(DEVICES[label][runtime])
        if row.get("outcome") == "no error":
            assert open_session(graph).run("bad:0") == 1
            return
        with pytest.raises(StepError, match="Cannot assign a device for operation bad"):
            open_session(graph)


@pytest.mark.parametrize("value", [["p", "q"], 3.0, None])
def test_a_value_that_is_no_tensor_is_refused(opened: tuple[str, Open], value: object) -> None:
    runtime, open_session = opened
    at = "/job:ps/task:0" if runtime == "grpc" else "/device:CPU:0"
    session = open_session(placeholder_and_constant(at))
    with pytest.raises(StepError, match="for Tensor x:0: feeds are tensors") as caught:
        session.run("a:0", {"x:0": value})  # type: ignore[dict-item]
    assert (caught.value.code, caught.value.node) == ("INVALID_ARGUMENT", "x")


def handles() -> Graph:
    """A variable, a queue and a stack on worker:0, and the variable under another name."""
    b = GraphBuilder()
    with b.device("/job:worker/task:0"):
        w = b.op("VarHandleOp", name="w", dtype="float32", shape=[2])
        b.op("Identity", w, name="same", T="resource")
        b.op("FIFOQueueV2", name="q", component_types=["float32"])
        b.op("StackV2", b.const(5, "int32", name="limit"), name="st", elem_type="float32")
    return b.graph()


@pytest.mark.parametrize("kind", ["near", "grpc"])
def test_the_handle_of_a_resource_is_not_fetched(kind: str) -> None:
    with running(kind) as (_, open_session):
        session = open_session(handles())
        for name in ("w", "same", "q", "st"):
            with pytest.raises(StepError, match="is the handle of a resource") as caught:
                session.run(f"{name}:0")
            assert (caught.value.code, caught.value.node) == ("INVALID_ARGUMENT", name)
            assert session.run(name) is None


def fed_variable() -> Graph:
    """`assign` gives the variable on ps:0 the fed `x`; `minus` is of an int32."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        w = b.op("VarHandleOp", name="w", dtype="float32", shape=[2])
        x = b.placeholder([2], name="x")
        count = b.placeholder([-1], "int32", name="count")
        b.op("AssignVariableOp", w, x, name="assign", dtype="float32")
        b.op("ReadVariableOp", w, name="read", dtype="float32")
        b.op("Neg", count, name="minus", T="int32")
    return b.graph()


@pytest.mark.parametrize("kind", ["near", "grpc"])
def test_a_fed_number_of_another_dtype_is_cast_if_it_stays_what_it_is(kind: str) -> None:
    with running(kind) as (_, open_session):
        session = open_session(fed_variable())
        session.run("assign", {"x:0": torch.tensor([1, 2])})
        read = session.run("read:0")
        assert (read.dtype, read.tolist()) == (torch.float32, [1.0, 2.0])
        session.make_callable("assign", "x:0")(torch.tensor([3.0, 4.0], dtype=torch.float64))
        assert session.run("read:0").tolist() == [3.0, 4.0]
        minus = session.run("minus:0", {"count:0": torch.tensor([5])})
        assert (minus.dtype, minus.tolist()) == (torch.int32, [-5])
        for value, named in ((torch.tensor([1.5]), "float32"), (torch.tensor([1 << 40]), "int64")):
            with pytest.raises(
                StepError, match=f"{named} for Tensor count:0, which has type int32"
            ):
                session.run("minus:0", {"count:0": value})
