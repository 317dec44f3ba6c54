"""Steps across tasks: registered once, isolated, recorded from end to end."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.clusters import TestCluster
from tests.fakes import FakeClock
from tests.runtime.graphs import CLUSTER, WORKER_0, counter
from tracer.model.cluster import TaskName
from tracer.model.graph import Graph, Node
from tracer.model.graph_builder import GraphBuilder
from tracer.model.graph_json import read_graph_file
from tracer.model.graph_table import STAGES, nodes_of_chunks
from tracer.model.trace_folder import Flag
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.kernel import Kernel, OpContext, OpDef
from tracer.ops.registry import lookup

Start = Callable[..., TestCluster]
GOLDEN = Path(__file__).parent.parent / "golden"
TWO = torch.tensor([2.0, 2.0])


def test_a_request_is_registered_once_and_run_many_times(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    for _ in range(3):
        session.run(["read:0", "twice:0"])
        session.run(["twice:0", "read:0"])
    made = cluster.tasks.masters[WORKER_0].session(session.handle).num_graphs
    assert made == 2
    registered = [span.attributes["vizdist.graph.id"] for span in cluster.spans("graph.register")]
    assert len(set(registered)) == 2
    assert len(registered) == 1 + 3  # init: ps; the other: ps and both workers


def test_variables_live_in_their_task_and_not_in_the_session(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    first = cluster.session(counter())
    first.run("init")
    first.run("add", {"x:0": TWO})
    first.close()
    second = cluster.session(counter())
    assert second.run("read:0").tolist() == [3.0, 3.0]


def test_two_sessions_share_a_variable_and_nothing_else(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    left, right = cluster.session(counter()), cluster.session(counter(), at=TaskName("worker", 1))
    left.run("init")
    right.run("add", {"x:0": TWO})
    assert left.run("twice:0").tolist() == [6.0, 6.0]
    left.close()
    assert right.run("twice:0").tolist() == [6.0, 6.0]


def test_what_is_fed_and_fetched_never_reaches_the_runtime(start_cluster: Start) -> None:
    session = start_cluster(CLUSTER).session(counter())
    session.run("init")
    values = session.run(["x:0", "read:0"], {"x:0": TWO})
    assert values[0] is TWO
    assert values[1].tolist() == [1.0, 1.0]


def test_step_ids_are_random_and_numbers_ordinal(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    step = session.make_callable(["read:0"])
    for _ in range(4):
        step()
    spans = cluster.spans("session.run")
    assert [span.step for span in spans] == [1, 2, 3, 4, 5]
    ids = [int(str(span.attributes["vizdist.step.id"]), 16) for span in spans]
    assert len(set(ids)) == 5
    assert ids != sorted(ids) or ids[1] - ids[0] != 1
    assert len({(span.trace_hi, span.trace_lo) for span in spans}) == 5


def test_a_parameter_server_step_moves_each_weight_and_gradient_once(start_cluster: Start) -> None:
    file = read_graph_file(GOLDEN / "viii_mlp_resource_1ps__grpc.json")
    cluster = start_cluster(file.cluster)
    session = cluster.session(file.graph)
    session.run(str(file.run.init))
    feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
    session.run(file.run.names, feeds)
    remote = [s for s in cluster.spans("rendezvous.recv") if s.step == 2 and s.flags & Flag.REMOTE]
    weights = 4 * (8 * 5 + 5 + 5 * 3 + 3)
    assert sum(s.num_bytes for s in remote if s.task == "worker:0") == weights
    assert sum(s.num_bytes for s in remote if s.task == "ps:0") == weights + 4  # and the rate
    assert len(remote) == 4 + 4 + 1
    sends = {span.span: span for span in cluster.spans("rendezvous.send")}
    for recv in remote:
        assert sends[recv.link].task != recv.task
        assert sends[recv.link].num_bytes == recv.num_bytes
        assert 0 <= recv.extra <= recv.end - recv.start


def test_ops_say_the_version_they_read_and_wrote(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    session.run(["add", "read:0"], {"x:0": TWO})
    session.run("read:0")
    versions = [(s.step, s.name, s.extra) for s in cluster.spans("op.run") if s.extra]
    assert (1, "init", 1) in versions
    assert (2, "add", 2) in versions
    assert (3, "read", 2) in versions


def test_every_op_of_every_partition_is_recorded_once_a_step(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    session = cluster.session(counter())
    session.run("init")
    session.run("twice:0")
    ops = [span for span in cluster.spans("op.run") if span.step == 2]
    assert sorted(span.name for span in ops) == ["read", "twice", "v"]
    for span in ops:
        assert span.ready <= span.start <= span.end
    parts = {span.span: span for span in cluster.spans("partition.run")}
    assert {parts[span.parent].task for span in ops} == {"ps:0", "worker:1"}
    assert len({span.parent for span in ops}) == 2


def test_the_graph_travels_in_the_trace_at_every_stage(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER)
    cluster.session(counter()).run("init")
    chunks = cluster.spans("graph.chunk")
    assert len({chunk.attributes["vizdist.graph.id"] for chunk in chunks}) == 1
    sizes = {}
    for stage in STAGES:
        pieces = [c.attributes for c in chunks if c.attributes["vizdist.graph.stage"] == stage]
        sizes[stage] = {row.name for row in nodes_of_chunks(pieces)}
    assert sizes["full"] == set(counter())
    assert sizes["pruned"] == sizes["placed"] == sizes["worker"] == {"v", "one", "init"}


def test_a_step_that_is_not_sampled_leaves_no_span(start_cluster: Start) -> None:
    cluster = start_cluster(CLUSTER, trace=False)
    session = cluster.session(counter())
    session.run("init")
    assert session.run("twice:0").tolist() == [2.0, 2.0]


def sleeping(clock: FakeClock) -> Callable[[str], OpDef]:
    """A registry in which `Neg` takes 7 ms."""

    def bind(node: Node, context: OpContext) -> Kernel:
        inner = lookup("Neg").bind(node, context)

        def slow(x: torch.Tensor) -> torch.Tensor:
            clock.sleep(0.007)
            value: torch.Tensor = inner(x)
            return value

        return slow

    return lambda name: replace(lookup(name), bind=bind) if name == "Neg" else lookup(name)


def chain() -> Graph:
    """A value goes from ps:0 through a slow `Neg` on worker:1 to worker:0."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        before = b.op("Abs", b.const([1.0], name="c"), name="before", T="float32")
    with b.device("/job:worker/task:1"):
        slow = b.op("Neg", before, name="slow", T="float32")
    with b.device("/job:worker/task:0"):
        b.op("Abs", slow, name="after", T="float32")
    return b.graph()


@pytest.mark.parametrize("executor", ["generated", "queue"])
def test_a_kernel_that_takes_7_ms_shows_7_ms_there_and_nowhere_else(
    start_cluster: Start, executor: str
) -> None:
    clock = FakeClock()
    cluster = start_cluster(CLUSTER, clock=clock, lookup=sleeping(clock), executor=executor)
    assert cluster.session(chain()).run("after:0").tolist() == [1.0]
    took = {span.name: span.end - span.start for span in cluster.spans("op.run")}
    assert took == {"c": 0, "before": 0, "slow": 7_000_000, "after": 0}


def test_a_recv_waits_until_the_value_exists_and_its_consumer_is_ready_then(
    start_cluster: Start,
) -> None:
    clock = FakeClock()
    cluster = start_cluster(CLUSTER, clock=clock, lookup=sleeping(clock))
    cluster.session(chain()).run("after:0")
    remote = [span for span in cluster.spans("rendezvous.recv") if span.flags & Flag.REMOTE]
    waits = {span.task: span.extra for span in remote}
    assert waits == {"worker:1": 0, "worker:0": 7_000_000}
    arrived = next(span.end for span in remote if span.task == "worker:0")
    after = next(span for span in cluster.spans("op.run") if span.name == "after")
    assert after.ready == arrived
