"""Small graphs in which ranks meet, and clusters for them."""

from collections.abc import Sequence

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph, Input
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import STEP_ID_BITS
from tracer.strategies.collective_nodes import CollectiveGroup, CollectiveKeys

NUMBER_BITS = STEP_ID_BITS


def workers(tasks: int) -> ClusterSpec:
    return ClusterSpec.of_counts(worker=tasks)


def devices_of(ranks: int, tasks: int) -> list[str]:
    """Ranks in turns of tasks: 0 in worker:0, 1 in worker:1, …"""
    return [str(TaskName("worker", r % tasks).device("CPU", r // tasks)) for r in range(ranks)]


def cpus_of(ranks: int, tasks: int) -> dict[TaskName, tuple[str, ...]]:
    """What makes those devices."""
    return {
        TaskName("worker", task): tuple(f"cpu:{i}" for i in range(-(-(ranks - task) // tasks)))
        for task in range(tasks)
    }


def fed(b: GraphBuilder, device: str, rank: int, shape: Sequence[int], dtype: str) -> Input:
    with b.device(device):
        return b.placeholder(shape, dtype, name=f"x{rank}")


def reducing(
    devices: Sequence[str],
    shapes: Sequence[Sequence[int]],
    dtype: str = "float32",
    *,
    hint: str = "ring",
    merge_op: str = "Add",
    final_op: str = "Id",
    timeout_s: float = 0.0,
) -> tuple[Graph, list[str]]:
    """`x0:0`, `x1:0` … are fed, a rank each; gives the names of the sums."""
    b = GraphBuilder()
    xs = [fed(b, d, r, shapes[r], dtype) for r, d in enumerate(devices)]
    group = CollectiveGroup(b, CollectiveKeys(), devices, hint=hint, timeout_s=timeout_s)
    sums = group.all_reduce(xs, of="x", final_op=final_op, merge_op=merge_op)
    return b.graph(), names(sums)


def names(outputs: Sequence[Input]) -> list[str]:
    return [f"{output.node}:{output.port}" for output in outputs]
