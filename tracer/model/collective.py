"""What a rank says of a collective before any byte of it moves, and what it is told.

After TF `collective_params` of `collective.h`. A *group* is the devices that take part, each with a
*rank*, its place among them. The task of rank 0 *leads*: every rank tells it that it has arrived,
and the leader compares what they brought. An *instance* is one collective of a group, known by its
key; each time it is run is an *execution*.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

from tracer.model.cluster import DeviceName, TaskName
from tracer.model.step import STEP_ID_BITS

Kind = Literal["all_reduce", "all_gather", "broadcast"]

HINTS: Final = ("auto", "ring", "tree", "native")
MERGE_OPS: Final = ("Add", "Mul", "Max", "Min")
FINAL_OPS: Final = ("Id", "Div")
TIMEOUT_S: Final = 30.0  #: how long a rank waits for the others unless its node says otherwise


def is_execution(number: int) -> bool:
    """Whether this is the id of an execution and not of a step, which is shorter."""
    return bool(number >> STEP_ID_BITS)


@dataclass(frozen=True)
class Collective:
    """One rank's node. `of` says what is reduced, in the same words on all ranks.

    `is_ordered`: the ranks issue the collectives of this group in one order. `between_graphs`: each
    rank is in a graph of its own master, so that their step ids differ. `source` is the rank that
    broadcasts, -1 in other kinds.
    """

    kind: Kind
    node: str
    devices: tuple[str, ...]
    rank: int
    of: str = ""
    merge_op: str = "Add"
    final_op: str = "Id"
    algorithm: str = "ring"
    is_ordered: bool = False
    between_graphs: bool = False
    timeout_s: float = TIMEOUT_S
    source: int = -1

    @property
    def device(self) -> str:
        return self.devices[self.rank]

    @cached_property
    def tasks(self) -> tuple[TaskName, ...]:
        """Of each rank."""
        return tuple(DeviceName.parse(device).task_name for device in self.devices)

    @property
    def leader(self) -> TaskName:
        return self.tasks[0]


class Arrival(NamedTuple):
    """A rank is there (TF `CompleteInstanceRequest`).

    `scope` is the step id where all ranks are in one graph, else 0; `step` the ordinal step number,
    0 if there is none. `incarnation` is that of the rank's device. `given_up`: the rank waits no
    longer, for this reason. `has_left`: this is where it came to last, its client is done.
    """

    kind: str
    node: str
    devices: tuple[str, ...]
    rank: int
    group_key: int
    instance_key: int
    incarnation: int
    scope: int
    step: int
    dtype: str
    shape: tuple[int, ...]
    of: str
    merge_op: str
    final_op: str
    algorithm: str
    is_ordered: bool
    source: int
    timeout_s: float
    given_up: str = ""
    has_left: bool = False


class Execution(NamedTuple):
    """All ranks are there and agree (TF `CompleteInstanceResponse`).

    `incarnations` and `rows`, the first dim of what it brought, are by rank. `port` is that of the
    leader's store where the collective is native, and `turn` counts such executions of the group.
    """

    number: int
    incarnations: tuple[int, ...]
    rows: tuple[int, ...]
    port: int = 0
    turn: int = 0
