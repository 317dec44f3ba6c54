"""Versions tell how old a value was that an update was made from: at most one push a worker."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import torch

from tests.clusters import RUN_ID, TestCluster, running_cluster
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import trace_of_step
from tracer.runtime.session import Session, Tracing

ONE = {"push:0": torch.tensor(1.0)}


def counting(worker: TaskName) -> Graph:
    """A step reads `w` on the ps, and later pushes what is fed."""
    b = GraphBuilder()
    with b.device("/job:ps/task:0"):
        w = b.op("VarHandleOp", name="w", dtype="float32", shape=[])
        first = b.const(0.0, name="first")
        b.op("AssignVariableOp", w, first, name="init", dtype="float32")
        b.op("ReadVariableOp", w, name="read", dtype="float32")
    with b.device(f"/job:worker/task:{worker.index}"):
        push = b.placeholder([], name="push")
    b.op("AssignAddVariableOp", w, push, name="apply", dtype="float32")
    return b.graph()


@contextmanager
def workers(count: int) -> Iterator[tuple[TestCluster, list[Session]]]:
    """A session for each worker, which is master of its own steps."""
    spec = ClusterSpec.of_counts(ps=1, worker=count)
    with running_cluster("near", spec) as cluster, ExitStack() as stack:
        recorder, sessions = cluster.tracing.recorder, []
        for task in (TaskName("worker", index) for index in range(count)):
            tracing = Tracing(
                recorder,
                cluster.tracing.run,
                lambda n, task=task: trace_of_step(RUN_ID, str(task), n),  # type: ignore[misc]
            )
            master = cluster.tasks.masters[task]
            sessions.append(stack.enter_context(Session(master, counting(task), tracing)))
        sessions[0].run("init")
        yield cluster, sessions


def missed(cluster: TestCluster) -> Counter[int]:
    """How many updates missed how many versions."""
    versions: dict[int, dict[str, int]] = defaultdict(dict)
    for span in cluster.spans("op.run"):
        if span.name in ("read", "apply"):
            versions[span.trace_lo][span.name] = int(span.attributes["vizdist.variable.version"])
    return Counter(step["apply"] - 1 - step["read"] for step in versions.values() if len(step) == 2)


def test_who_steps_after_the_others_have_ended_misses_nothing() -> None:
    with workers(2) as (cluster, sessions):
        for number in range(12):
            sessions[number % 2].run(["read:0", "apply"], ONE)
        assert sessions[0].run("read:0").item() == 12
        found = cluster
    assert missed(found) == {0: 12}


@pytest.mark.parametrize("count", [2, 3])
def test_who_reads_before_the_others_push_misses_a_push_of_each(count: int) -> None:
    rounds = 4
    with workers(count) as (cluster, sessions):
        for _ in range(rounds):
            steps = [
                session.partial_run_setup(["read:0", "apply"], "push:0") for session in sessions
            ]
            for step in steps:
                step.run("read:0")
            for step in steps:
                step.run("apply", ONE)
        assert sessions[0].run("read:0").item() == rounds * count, "each push counts once"
        found = cluster
    assert missed(found) == dict.fromkeys(range(count), rounds)
