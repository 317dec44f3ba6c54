"""deadlock: two workers, each waits for the other to give first.

    worker:0   take from `left` ──────► put into `right`   worker:1
    worker:0   put into `left`  ◄────── take from `right`  worker:1

What to look at: both queues are empty, so nobody can take, so nobody puts. Nothing crashes and
nothing computes; the step ends at its limit (try `--step-timeout 3`), and the error says which keys
were never sent and who waited for them. In the Timeline both `take` ops and both receives last as
long as the step. `--option primed=true` puts one element in first: then the ring turns.
"""

from typing import Annotated

from tracer.model.graph import Input
from tracer.model.graph_builder import GraphBuilder
from tracer.workloads.graph_workload import GraphWorkload, graph_workload

FIRST, SECOND = "/job:worker/task:0", "/job:worker/task:1"


def workload(
    primed: Annotated[bool, "put one element in before the first step"] = False,
) -> GraphWorkload:
    """Two queues on two workers, each filled from the other: a step that can never end."""
    b = GraphBuilder()
    left, right = _queue(b, FIRST, "left"), _queue(b, SECOND, "right")
    taken, handed = _take(b, FIRST, left), _take(b, SECOND, right)
    with b.device(SECOND):
        b.op("QueueEnqueueV2", right, taken, name="put_right")
    with b.device(FIRST):
        b.op("QueueEnqueueV2", left, handed, name="put_left")
        token = b.const(1.0, name="token")
        b.op("QueueEnqueueV2", left, token, name="prime")
        b.op("NoOp", name="nothing")
    return graph_workload(
        b.graph(),
        {"worker": 2},
        [f"{taken.node}:0", "put_left", "put_right"],
        init="prime" if primed else "nothing",
    )


def _queue(b: GraphBuilder, device: str, name: str) -> Input:
    with b.device(device):
        return b.op("FIFOQueueV2", name=name, component_types=["float32"], shapes=[[]], capacity=2)


def _take(b: GraphBuilder, device: str, queue: Input) -> Input:
    with b.device(device):
        name = f"take_{queue.node}"
        return b.op("QueueDequeueV2", queue, name=name, component_types=["float32"])
