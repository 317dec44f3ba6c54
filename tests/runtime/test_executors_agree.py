"""Both executors record the same of a step: a trace does not show which one ran."""

from collections import Counter

from tests.clusters import running_cluster
from tests.runtime.graphs import CLUSTER, counter
from tests.runtime.loops import choice
from tests.runtime.test_control_flow import pred
from tests.runtime.test_steps import TWO
from tracer.model.trace_folder import Flag
from tracer.runtime.worker_env import ExecutorKind

KINDS = ("op.run", "rendezvous.send", "rendezvous.recv", "partition.run")


def recorded_by(executor: ExecutorKind) -> Counter[tuple[object, ...]]:
    """What is told of each span, but for times, new numbers, and who came first."""
    with running_cluster("near", CLUSTER, executor=executor) as cluster:
        plain, branches = cluster.session(counter()), cluster.session(choice())
        plain.run("init")
        plain.run(["add", "twice:0"], {"x:0": TWO})
        for value in (True, False):
            branches.run("out:0", pred(value))
        spans = [span for kind in KINDS for span in cluster.spans(kind)]
    version = "vizdist.variable.version"
    return Counter(
        (s.kind, s.task, s.name, s.num_bytes, s.flags & ~Flag.DEFERRED, s.attributes.get(version))
        for s in spans
    )


def test_both_executors_record_the_same() -> None:
    assert recorded_by("queue") == recorded_by("generated")
