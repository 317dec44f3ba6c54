"""`Distribution`: one graph built for several replicas (TF `StrategyExtended`).

It says where the replicas compute, where copies of a variable live and how values of all replicas
meet; a strategy makes one for each graph.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracer.model.graph import Input, Node, TensorSpec
from tracer.model.graph_builder import GraphBuilder
from tracer.model.step import SpanContext
from tracer.record.open_span import RareSpan
from tracer.record.recorder import NO_RECORDER, Recorder
from tracer.strategies.contexts import (
    Context,
    CrossReplicaContext,
    DistributionError,
    ReplicaContext,
    UpdateContext,
    current,
    entered,
)
from tracer.strategies.cross_device import CrossDeviceOps, ReductionToOneDevice
from tracer.strategies.mirrored_run import call_for_each_replica
from tracer.strategies.values import (
    COPY_OF,
    MEAN,
    NONE,
    ON_WRITE,
    ONLY_FIRST_REPLICA,
    SUM,
    Copy,
    Creator,
    DistributedVariable,
    PerReplica,
    copy_names,
    policy_of,
    replicas_own,
)

_HERE = Path(__file__).parent
_UNRECORDED = SpanContext(0, 0, sampled=False)


@dataclass(slots=True)
class Building:
    """Where what happens while a graph is built is recorded."""

    recorder: Recorder = NO_RECORDER
    context: SpanContext = _UNRECORDED
    _open: list[RareSpan] = field(default_factory=list)
    _told: list[dict[str, dict[str, None]]] = field(default_factory=list)  # of each that is open

    @contextmanager
    def span(self, kind: str) -> Iterator[RareSpan]:
        with self.recorder.span(kind, self.context) as span:
            self._open.append(span)
            self._told.append({})
            try:
                yield span
            finally:
                self._open.pop()
                self._told.pop()

    def tell(self, name: str, value: str) -> None:
        """Of whatever is being built now; what is told of one name is listed."""
        if self._open:
            told = self._told[-1].setdefault(name, {})
            told[value] = None
            self._open[-1].set(name, ", ".join(told))


class Distribution:
    """`devices`: of the replicas. `copies_on(name)`: devices of the copies of a variable.

    One copy a replica on its own device, unless told otherwise.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        devices: Sequence[str],
        cross_device: CrossDeviceOps | None = None,
        copies_on: Callable[[str], Sequence[str]] | None = None,
        building: Building | None = None,
    ) -> None:
        self.builder = builder
        self.devices = tuple(devices)
        self.building = building or Building()
        self._cross_device = cross_device or ReductionToOneDevice()
        self.copies_on = copies_on or (lambda _: self.devices)
        self._creators: list[Callable[..., DistributedVariable]] = []
        self.variables: dict[str, DistributedVariable] = {}
        self.initializers: list[Input] = []

    @property
    def num_nodes(self) -> int:
        return len(list(self.builder.nodes))

    @contextmanager
    def scope(self) -> Iterator["Distribution"]:
        with entered(CrossReplicaContext(self, self.builder)):
            yield self

    def run(self, fn: Callable[..., Any], *args: Any) -> Any:
        """`fn(*args)` built for each replica; what they return, as PerReplica."""
        self._only_across("run")
        return call_for_each_replica(self, fn, args)

    def replica_context(
        self, replica: int, pause: Callable[..., Any], scopes: ExitStack
    ) -> ReplicaContext:
        """For one thread; `scopes` close with it."""
        builder = self.builder.beside(self.devices[replica])
        if replica:
            scopes.enter_context(builder.name_scope(f"replica_{replica}"))
        return ReplicaContext(self, builder, replica, self.devices[replica], pause)

    @contextmanager
    def variable_creator_scope(self, creator: Callable[..., DistributedVariable]) -> Iterator[None]:
        """`creator(next_creator, name, value, **kwargs)` makes the variables meanwhile."""
        self._creators.append(creator)
        try:
            yield
        finally:
            self._creators.pop()

    def variable(self, name: str, value: Any, **kwargs: str) -> DistributedVariable:
        """A variable with a copy on each device that `copies_on` says, all of the same value.

        `synchronization`, `aggregation`: see `values`; `dtype` is float32 unless said. Replica 0
        makes the first value, the others copy it. Raises DistributionError, also in a replica and
        for a name that is taken.
        """
        create: Creator = self._variable
        for creator in self._creators:
            create = _chained(creator, create)
        return create(name, value, **kwargs)

    def _variable(
        self,
        name: str,
        value: Any,
        *,
        synchronization: str = "AUTO",
        aggregation: str = NONE,
        dtype: str = "float32",
    ) -> DistributedVariable:
        policy_of(name, synchronization, aggregation)
        self._only_across("variable")
        if name in self.variables:
            raise DistributionError(
                f"variable {name!r} was made{self.variables[name].told_where}; give this one "
                "another name, or use that one"
            )
        devices = self.copies_on(name)
        copies = tuple(map(Copy, copy_names(name, len(devices)), devices))
        builder, made_at = self.builder.beside(devices[0]), _line()
        with builder.at(made_at):
            first = builder.const(value, dtype, name=f"{name}/Initializer")
        spec = builder[first.node].specs[0]
        variable = DistributedVariable(
            name,
            spec,
            copies,
            ON_WRITE if synchronization == "AUTO" else synchronization,
            aggregation,
            made_at,
            self,
        )
        for node in creation_of(variable, first):
            builder.keep(node)
        self.initializers += [Input(f"{copy.name}/Assign") for copy in copies]
        self.variables[name] = variable
        return variable

    def update(
        self, variable: DistributedVariable, fn: Callable[..., Any], *args: Any
    ) -> list[Any]:
        """`fn(*args)` built for every copy, on its device; of PerReplica args each gets its own."""
        self._only_across("update")
        made = []
        for number, copy in enumerate(variable.copies):
            builder = self.builder.beside(copy.device)
            own = [replicas_own(each, number) for each in args]
            context = UpdateContext(self, builder, number)
            with builder.name_scope(f"update_{number}"), entered(context):
                made.append(fn(*own))
        return made

    def reduce(self, op: str, value: Any, axis: int | None = None) -> Input:
        """One value of all replicas' values; with `axis` 0, of all their rows.

        Raises DistributionError for the sum of a value that is no PerReplica: summed how often?
        """
        self._only_across("reduce")
        if not isinstance(value, PerReplica):
            return self._reduced_alone(op, value)
        if axis is not None:
            return self._reduced_rows(op, value, axis)
        return self.reduce_to(op, value, self.devices[:1])[0]

    def _reduced_alone(self, op: str, value: Any) -> Input:
        if op == MEAN:
            return self._valued(value)
        raise DistributionError(
            f"the {op} of a value that all replicas share is asked for: {value!r} is no PerReplica "
            "value, so nothing says how often it counts; reduce what `run` returned, or take MEAN"
        )

    def _reduced_rows(self, op: str, value: PerReplica, axis: int) -> Input:
        if op == ONLY_FIRST_REPLICA:
            raise DistributionError(
                f"{op} is asked for with axis {axis}, and the first replica has several rows; "
                "reduce without `axis`, or take SUM or MEAN"
            )
        if op == MEAN:
            self._check_mean([value.values])
        sums, rows = [], []
        for each, device in zip(value.values, self.devices, strict=True):
            spec = self.builder[each.node].specs[each.port]
            kept = TensorSpec(spec.dtype, (*spec.shape[:axis], *spec.shape[axis + 1 :]))
            with self.builder.device(device):
                axes = self.builder.const(axis, "int32", name="Sum/axis")
                attrs: dict[str, Any] = {"T": spec.dtype, "keep_dims": False}
                sums.append(self.builder.op("Sum", each, axes, name="Sum", specs=[kept], **attrs))
                if op == MEAN:
                    rows.append(self.builder.const(spec.shape[axis], spec.dtype, name="Sum/rows"))
        many = [PerReplica(tuple(each)) for each in (sums, rows) if each]
        (total,), *counts = self.batch_reduce(SUM, many, self.devices[:1])
        context = CrossReplicaContext(self, self.builder)
        return self.over(context, total, *counts[0]) if counts else total

    def gather(self, value: PerReplica, axis: int = 0) -> Input:
        """All replicas' values end to end; their sizes along `axis` may differ."""
        self._only_across("gather")
        specs = [self.builder[each.node].specs[each.port] for each in value.values]
        shape = list(specs[0].shape)
        shape[axis] = sum(spec.shape[axis] for spec in specs)
        whole = TensorSpec(specs[0].dtype, tuple(shape))
        with self.builder.device(self.devices[0]):
            at = self.builder.const(axis, "int32", name="concat/axis")
            attrs: dict[str, Any] = {"T": whole.dtype, "N": len(specs)}
            return self.builder.op(
                "ConcatV2", *value.values, at, name="concat", specs=[whole], **attrs
            )

    def reduce_to_all(self, op: str, value: Any) -> Any:
        """On every replica: `value` is a PerReplica, or a list or mapping of such."""
        if isinstance(value, Mapping):
            made = self.reduce_to_all(op, list(value.values()))
            return dict(zip(value, made, strict=True))
        many = value if isinstance(value, list) else [value]
        made = [PerReplica(tuple(each)) for each in self.batch_reduce(op, many, self.devices)]
        return made if isinstance(value, list) else made[0]

    def reduce_to(self, op: str, value: PerReplica, devices: Sequence[str]) -> tuple[Input, ...]:
        return tuple(self.batch_reduce(op, [value], devices)[0])

    def batch_reduce(
        self, op: str, values: Sequence[PerReplica], devices: Sequence[str]
    ) -> list[list[Input]]:
        """For each of `values` its sum, mean or first, on each of `devices`."""
        tensors = [self._all_valued(value) for value in values]
        if op == ONLY_FIRST_REPLICA:
            return [[each[0]] * len(devices) for each in tensors]
        if op == MEAN:
            self._check_mean(tensors)
        sums = self._cross_device.batch_reduce(self.builder, tensors, devices)
        count = self._cross_device.num_summed(len(self.devices))
        if op == SUM or count == 1:
            return sums
        return [
            [
                self.over(self.at(device), each, count)
                for each, device in zip(made, devices, strict=True)
            ]
            for made in sums
        ]

    def _check_mean(self, tensors: Sequence[Sequence[Input]]) -> None:
        for each in tensors:
            dtype = self.builder.dtype_of(each[0])
            if dtype.startswith(("int", "uint", "bool")):
                raise DistributionError(
                    f"the MEAN of {dtype} values is asked for, and it need not be a whole number; "
                    "take SUM or ONLY_FIRST_REPLICA, or make the value a float"
                )

    def at(self, device: str) -> Context:
        return CrossReplicaContext(self, self.builder.beside(device))

    def over(self, context: Context, value: Any, count: int | Input) -> Input:
        """`value / count`."""
        value = self._valued(value)
        spec = self.builder[value.node].specs[value.port]
        divisor = count
        if not isinstance(divisor, Input):
            divisor = context.builder.const(divisor, spec.dtype, name="truediv/count")
        return context.builder.op(
            "RealDiv", value, divisor, name="truediv", specs=[spec], T=spec.dtype
        )

    def value(self, context: Context, value: Any, spec: TensorSpec) -> Input:
        """A plain number or list becomes a constant where the context is."""
        if isinstance(value, Input):
            return value
        return context.builder.const(value, spec.dtype, name="value")

    def _valued(self, value: Any) -> Input:
        return value if isinstance(value, Input) else self.builder.const(value, name="value")

    def _all_valued(self, value: Any) -> list[Input]:
        values = value.values if isinstance(value, PerReplica) else [value] * len(self.devices)
        return [
            each if isinstance(each, Input) else self.at(device).builder.const(each, name="value")
            for each, device in zip(values, self.devices, strict=True)
        ]

    def group(self, done: Sequence[Input]) -> Input:
        """What ends when all of them have."""
        return self.builder.op("NoOp", name="group_deps", control_inputs=done)

    def _only_across(self, what: str) -> None:
        context = current()
        if context is not None and not isinstance(context, CrossReplicaContext):
            raise DistributionError(
                f"`{what}` is called inside a replica or an update, where values are of one "
                "replica; call it in the scope itself, or in what `merge_call` is given"
            )


def _line() -> str:
    """`file:line` of whoever is no strategy."""
    frame = sys._getframe(1)
    while frame.f_back and Path(frame.f_code.co_filename).parent == _HERE:
        frame = frame.f_back
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])}:{frame.f_lineno}"


def _chained(creator: Callable[..., DistributedVariable], following: Creator) -> Creator:
    def create(*args: Any, **kwargs: Any) -> DistributedVariable:
        return creator(following, *args, **kwargs)

    return create


def creation_of(variable: DistributedVariable, first: Input) -> Iterator[Node]:
    """Handle and assignment of each copy; the first gets `first`, others read the first."""
    dtype, shape = variable.spec.dtype, list(variable.spec.shape)
    origin = variable.copies[0].name
    for number, (name, device) in enumerate(variable.copies):
        beside = {"_class": [f"loc:@{name}"]}
        rules = {
            "_synchronization": variable.synchronization,
            "_aggregation": variable.aggregation,
            "_copies": len(variable.copies),
            **({COPY_OF: origin} if number else {}),
        }
        yield Node(
            name,
            "VarHandleOp",
            requested_device=device,
            attrs={
                "dtype": dtype,
                "shape": shape,
                "shared_name": name,
                "container": "",
                **beside,
                **rules,
            },
            specs=(TensorSpec("resource", ()),),
            source=variable.made_at,
        )
        if number:
            first = Input(f"{name}/Initializer")
            yield Node(
                first.node,
                "ReadVariableOp",
                (Input(origin),),
                (f"{origin}/Assign",),
                requested_device=variable.copies[0].device,
                attrs={"dtype": dtype},
                specs=(variable.spec,),
            )
        yield Node(
            f"{name}/Assign",
            "AssignVariableOp",
            (Input(name), first),
            requested_device=device,
            attrs={"dtype": dtype, "validate_shape": True, **beside},
        )
