"""What is the same in every run of a partition by ready queue: who waits for whom, in which frame.

After TF's `immutable_executor_state.cc`. Places are counted frame by frame, since each iteration of
a frame has an account of its own.
"""

from tracer.ops.kernel import DEAD
from tracer.passes.frames import ROOT
from tracer.runtime.prepared import Flow, Kind, PreparedFrame, PreparedNode, PreparedPartition

_MASK = (1 << 64) - 1
_SEED = 0xDECAFCAFFE


class Item:
    """A node as the queue sees it, with what a run asks of each.

    `at` is its place among the nodes of its frame, `first` and `last` bound its inputs among the
    entries of an iteration there. `data` are its consumers as (port, item, entry), `controls` those
    that only wait for it. One that `leaves` hands its outputs to another iteration or frame.
    """

    __slots__ = (
        "at",
        "controls",
        "data",
        "first",
        "flow",
        "is_kernel",
        "is_merge",
        "is_single",
        "is_trigger",
        "kernel",
        "last",
        "leaves",
        "node",
        "nothing",
        "opens",
    )

    def __init__(self, node: PreparedNode, frame: "FramePlan") -> None:
        self.node = node
        self.flow = node.flow
        self.kernel = node.kernel
        self.is_kernel = node.kind is Kind.KERNEL
        self.is_single = len(node.outputs) == 1
        self.is_merge = node.flow is Flow.MERGE
        self.is_trigger = node.flow is Flow.TRIGGER
        self.leaves = node.flow in (Flow.ENTER, Flow.EXIT, Flow.NEXT_ITERATION)
        self.at = len(frame.pending)
        self.first = len(frame.entries)
        self.last = self.first + len(node.inputs)
        self.nothing = [DEAD] * len(node.inputs)
        self.opens: FramePlan | None = None
        self.data: list[tuple[int, Item, int]] = []
        self.controls: list[Item] = []


class FramePlan:
    """A loop, or the root: how an iteration of it begins.

    `pending` says of each node how many inputs it waits for. Of a Merge it is 2 for each control
    input and 1 that the first live input takes away (TF `pending_counts.h`).
    """

    def __init__(self, told: PreparedFrame) -> None:
        self.told = told
        self.name_hash = hash64(told.name.encode())
        self.parallel_iterations = told.parallel_iterations
        self.num_enters = 0
        self.pending: list[int] = []
        self.entries: list[object] = []

    def add(self, node: PreparedNode) -> Item:
        item = Item(node, self)
        count = len(node.inputs) + len(node.controls)
        self.pending.append(1 + 2 * len(node.controls) if item.is_merge else count)
        self.entries += item.nothing
        return item


class Plan:
    """All frames of a partition; `roots` are the nodes that wait for nothing."""

    def __init__(self, partition: PreparedPartition) -> None:
        frames = {name: FramePlan(told) for name, told in partition.frames.items()}
        self.root = frames[ROOT]
        items = [frames[node.frame].add(node) for node in partition.nodes]
        maker = {
            value: (port, item) for item in items for port, value in enumerate(item.node.outputs)
        }
        for item in items:
            for entry, value in enumerate(item.node.inputs, item.first):
                port, source = maker[value]
                source.data.append((port, item, entry))
            for control in item.node.controls:
                items[control].controls.append(item)
            if item.node.opens:
                item.opens = frames[item.node.opens]
                item.opens.num_enters += 1
        self.roots = [item for item in items if not frames[item.node.frame].pending[item.at]]


TRANSFERS = (Kind.SEND, Kind.RECV)  #: they run for a dead value too, to hand on that it is dead


def frame_id(parent: int, iteration: int, name_hash: int) -> int:
    """The number of the frame that an Enter opens: the same in all tasks, as it is in TF."""
    return _combined(parent, _combined(iteration, name_hash))


def _combined(a: int, b: int) -> int:
    """TF `hash.h`, `Hash64Combine`."""
    return a ^ (b + 0x9E3779B97F4A7800 + (a << 10) + (a >> 4) & _MASK)


def hash64(data: bytes) -> int:
    """TF `hash.cc`, `Hash64`: MurmurHash64A."""
    multiplier, whole = 0xC6A4A7935BD1E995, len(data) & ~7
    found = _SEED ^ (len(data) * multiplier & _MASK)
    for at in range(0, whole, 8):
        part = int.from_bytes(data[at : at + 8], "little") * multiplier & _MASK
        part = (part ^ part >> 47) * multiplier & _MASK
        found = (found ^ part) * multiplier & _MASK
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & _MASK
    found = (found ^ found >> 47) * multiplier & _MASK
    return found ^ found >> 47
