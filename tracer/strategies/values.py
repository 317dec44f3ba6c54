"""Values of which every replica has one of its own (TF `values.py`, `values_util.py`).

    PerReplica            a value a replica
    DistributedVariable   copies on one or more devices, kept together by two rules:

*synchronization* says when the copies meet, *aggregation* how. `POLICIES` is all of it:

    ON_WRITE   NONE                  a replica writes its own copy: the copies part (`diverged`)
    ON_WRITE   SUM, MEAN, FIRST      replicas meet, and every copy gets the same
    ON_READ    NONE                  a replica writes its own; nobody can read them as one
    ON_READ    SUM, MEAN, FIRST      a replica writes its own; who reads from outside has them meet

(`Mirrored` is ON_WRITE, `SyncOnRead` ON_READ; AUTO means ON_WRITE, NONE is refused. With one copy
for all replicas, TF's `AggregatingVariable`, a write by replicas needs an aggregation.)
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tracer.model.graph import Input, TensorSpec
from tracer.strategies.contexts import (
    Context,
    CrossReplicaContext,
    DistributionError,
    ReplicaContext,
    UpdateContext,
    current,
)

if TYPE_CHECKING:
    from tracer.strategies.distribution import Distribution

_log = logging.getLogger(__name__)

AUTO, NONE, ON_WRITE, ON_READ = "AUTO", "NONE", "ON_WRITE", "ON_READ"
SUM, MEAN, ONLY_FIRST_REPLICA = "SUM", "MEAN", "ONLY_FIRST_REPLICA"

COPY_OF = "_copy_of"  #: attribute of the handle of a copy: the variable's name
SAVED_AS = "_saved_as"  #: of the handle of a first copy: the variable whose value is saved for it

SYNCHRONIZATIONS = (AUTO, ON_WRITE, ON_READ)
AGGREGATIONS = (NONE, SUM, MEAN, ONLY_FIRST_REPLICA)

ASSIGNS = {
    "assign": "AssignVariableOp",
    "assign_add": "AssignAddVariableOp",
    "assign_sub": "AssignSubVariableOp",
}


@dataclass(frozen=True, slots=True)
class PerReplica:
    values: tuple[Any, ...]


def replicas_own(value: Any, replica: int) -> Any:
    """What one replica has of a value: its own part of every PerReplica in it."""
    if isinstance(value, PerReplica):
        return value.values[replica]
    if isinstance(value, Mapping):
        return {key: replicas_own(each, replica) for key, each in value.items()}
    if isinstance(value, list):
        return [replicas_own(each, replica) for each in value]
    return value


def regrouped(values: Sequence[Any]) -> Any:
    """One value of what each replica gave, the inverse of `replicas_own`."""
    first = values[0]
    if isinstance(first, Mapping):
        return {key: regrouped([value[key] for value in values]) for key in first}
    if isinstance(first, list):
        return [regrouped(each) for each in zip(*values, strict=True)]
    if isinstance(first, DistributedVariable) and all(value is first for value in values):
        return first
    return PerReplica(tuple(values))


@dataclass(frozen=True, slots=True)
class Policy:
    """What a write by a replica, a read and a write from outside do; each a name, see `POLICIES`.

    `by_replica`: own, merged. `read`: first, reduced, refused. `write`: all, shared, refused.
    """

    by_replica: str
    read: str
    write: str


POLICIES: Mapping[tuple[str, str], Policy] = {
    (ON_WRITE, NONE): Policy("own", "first", "all"),
    (ON_WRITE, SUM): Policy("merged", "first", "all"),
    (ON_WRITE, MEAN): Policy("merged", "first", "all"),
    (ON_WRITE, ONLY_FIRST_REPLICA): Policy("merged", "first", "all"),
    (ON_READ, NONE): Policy("own", "refused", "refused"),
    (ON_READ, SUM): Policy("own", "reduced", "shared"),
    (ON_READ, MEAN): Policy("own", "reduced", "all"),
    (ON_READ, ONLY_FIRST_REPLICA): Policy("own", "first", "all"),
}


def policy_of(name: str, synchronization: str, aggregation: str) -> Policy:
    """Raises DistributionError for a pair that no variable can have."""
    asked = ON_WRITE if synchronization == AUTO else synchronization
    if (asked, aggregation) not in POLICIES:
        raise DistributionError(
            f"variable {name!r} asks for synchronization {synchronization} and aggregation "
            f"{aggregation}; there are synchronization {', '.join(SYNCHRONIZATIONS)} and "
            f"aggregation {', '.join(AGGREGATIONS)}"
        )
    return POLICIES[asked, aggregation]


class Copy(NamedTuple):
    """One of the variables that stand for a DistributedVariable: its handle's name, its device."""

    name: str
    device: str


def copy_names(name: str, count: int) -> list[str]:
    """`v`, `v/replica_1` and so on."""
    return [f"{name}/replica_{number}" if number else name for number in range(count)]


@dataclass(slots=True)
class DistributedVariable:
    """Nodes that read or write it are added where the context of the caller is.

    A graph has no order but its edges: a read that must see a write needs a control edge from it.
    `made_at` is the line that made it; `distribution` is None where that was in no scope.
    """

    name: str
    spec: TensorSpec
    copies: tuple[Copy, ...]
    synchronization: str = ON_WRITE
    aggregation: str = NONE
    made_at: str = ""
    distribution: "Distribution | None" = None
    has_diverged: bool = field(default=False, init=False)

    @property
    def told_where(self) -> str:
        return f" at {self.made_at}" if self.made_at else ""

    @property
    def policy(self) -> Policy:
        return policy_of(self.name, self.synchronization, self.aggregation)

    def read(self) -> Input:
        """The value as the context sees it. Raises DistributionError where there is none."""
        context = self._context()
        if isinstance(context, ReplicaContext | UpdateContext):
            return self._read_copy(context, self._own(context))
        rule = self.policy.read
        if rule == "refused":
            raise DistributionError(
                f"variable {self.name!r} has synchronization ON_READ and aggregation NONE: its "
                f"{len(self.copies)} copies cannot be read as one value outside of a replica; "
                "give it an aggregation (SUM, MEAN, ONLY_FIRST_REPLICA), or read it inside `run`"
            )
        if rule == "first" or len(self.copies) == 1:
            return self._read_copy(context, self.copies[0])
        copies = PerReplica(tuple(self._read_copy(context, copy) for copy in self.copies))
        return context.distribution.reduce(self.aggregation, copies)

    def assign(self, value: Any) -> Input:
        return self._write("assign", value)

    def assign_add(self, value: Any) -> Input:
        return self._write("assign_add", value)

    def assign_sub(self, value: Any) -> Input:
        return self._write("assign_sub", value)

    def _write(self, method: str, value: Any) -> Input:
        """What ends when the write is done, as a control input. Raises DistributionError."""
        context = self._context()
        if isinstance(context, UpdateContext):
            return self._write_copy(context, self._own(context), method, value)
        if isinstance(context, ReplicaContext):
            return self._write_by_replica(context, method, value)
        return self._write_all(context, method, value)

    def _write_by_replica(self, context: ReplicaContext, method: str, value: Any) -> Input:
        if self.policy.by_replica == "merged":
            value = context.distribution.value(context, value, self.spec)
            written: Input = context.merge_call(self._write_merged, method, value)
            return written
        if len(self.copies) < len(context.distribution.devices):
            raise DistributionError(
                f"variable {self.name!r} has one copy for all replicas and aggregation NONE: "
                f"`{method}` in a replica does not say what becomes of the other replicas' values; "
                "give it an aggregation (SUM, MEAN, ONLY_FIRST_REPLICA)"
            )
        if self.synchronization == ON_WRITE:
            self._warn_of_parting(context, method)
        return self._write_copy(context, self._own(context), method, value)

    def _warn_of_parting(self, context: ReplicaContext, method: str) -> None:
        if not self.has_diverged:
            self.has_diverged = True
            _log.warning(
                "variable %r has aggregation NONE and `%s` is called in a replica context (inside "
                "`run`): each replica writes its own copy, and the copies part. Give it an "
                "aggregation (SUM, MEAN, ONLY_FIRST_REPLICA), or assign outside of `run`",
                self.name,
                method,
            )
        context.distribution.building.tell("vizdist.variable.diverged", self.name)

    def _write_merged(self, distribution: "Distribution", methods: Any, values: Any) -> PerReplica:
        method = methods.values[0]
        if set(methods.values) != {method}:
            raise RuntimeError(
                f"replicas write variable {self.name!r} by {', '.join(methods.values)}: it takes "
                "one value of all of them, so let each call the same"
            )
        if self.aggregation == ONLY_FIRST_REPLICA:
            merged = PerReplica(values.values[:1] * len(self.copies))
        else:
            devices = [copy.device for copy in self.copies]
            merged = PerReplica(distribution.reduce_to(self.aggregation, values, devices))
        done = distribution.update(self, lambda own: self._write(method, own), merged)
        return PerReplica(tuple(done) * (len(distribution.devices) // len(done)))

    def _write_all(self, context: Context, method: str, value: Any) -> Input:
        rule = self.policy.write
        if rule == "refused" or (rule == "shared" and method != "assign"):
            raise DistributionError(
                f"variable {self.name!r} (synchronization {self.synchronization}, aggregation "
                f"{self.aggregation}) does not support `{method}` outside of a replica: its copies "
                "hold parts, and nothing says which of them would change; call it inside `run`"
                + (", or `assign`, which shares the value out" if rule == "shared" else "")
            )

        def write(own: Any) -> Input:
            inside = self._context()
            if rule == "shared":
                own = inside.distribution.over(inside, own, len(self.copies))
            return self._write_copy(inside, self._own(inside), method, own)

        return context.distribution.group(context.distribution.update(self, write, value))

    def _context(self) -> Context:
        context = current()
        if context is None or context.distribution is self.distribution:
            if context is not None:
                return context
            if self.distribution is not None:
                return CrossReplicaContext(self.distribution, self.distribution.builder)
        raise DistributionError(
            f"variable {self.name!r} was made{self.told_where} outside of the strategy's scope and "
            f"is used {_words(context)}: it has no copy there. Make it inside "
            "`with distribution.scope():`"
        )

    def _own(self, context: Context) -> Copy:
        if isinstance(context, UpdateContext):
            return self.copies[context.copy]
        assert isinstance(context, ReplicaContext)
        return self.copies[min(context.replica, len(self.copies) - 1)]

    def _read_copy(self, context: Context, copy: Copy) -> Input:
        with context.builder.device(copy.device):
            return context.builder.op(
                "ReadVariableOp",
                Input(copy.name),
                name=f"{self.name}/Read",
                specs=[self.spec],
                dtype=self.spec.dtype,
            )

    def _write_copy(self, context: Context, copy: Copy, method: str, value: Any) -> Input:
        value = context.distribution.value(context, value, self.spec)
        with context.builder.device(copy.device):
            return context.builder.op(
                ASSIGNS[method],
                Input(copy.name),
                value,
                name=f"{self.name}/{method}",
                dtype=self.spec.dtype,
            )


def _words(context: Context | None) -> str:
    if isinstance(context, ReplicaContext):
        return f"in the context of replica {context.replica} (inside `run`)"
    return "in a cross-replica context" if context else "outside of it"


Creator = Callable[..., DistributedVariable]
