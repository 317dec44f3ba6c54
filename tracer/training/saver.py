"""The graph that saves and restores a model's variables, and its session (TF `saver.py`).

prefix ─► ShardedFilename ─► SaveV2 ◄─ reads      on each device that holds variables
prefix ─► RestoreV2 ─► Assign …                   on the same ones
VarIsInitializedOp                                of each variable: what did a restart lose?
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tracer.capture_graph.capture import variables_of
from tracer.model.cluster import LOCALHOST, DeviceSpec
from tracer.model.graph import Graph, Input, Node, TensorSpec
from tracer.model.literal import literal_of
from tracer.model.step import SpanContext
from tracer.record.open_span import RareSpan
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import NO_TRACING, Session, Tracing
from tracer.strategies.values import COPY_OF, MEAN, ON_READ, SAVED_AS, SUM
from tracer.training.checkpoint import Checkpoints

# Of a variable with copies one value is saved, and every copy is restored from it: that of the
# first copy, or the mean of all where each replica keeps its own (SyncOnRead); where copies lie in
# graphs of several workers, they have met for it before. Of parts of a sum their sum is saved, and
# restored in the first copy: the others begin with zero.

PREFIX, SAVE, RESTORE = "save/prefix", "save/save_all", "save/restore_all"

_Copies = Sequence[Node]  #: of one variable, the first one first, each with its device

_Made = tuple[str, str, list[str], dict[str, Any]]  # name, op, inputs, attributes

OpenSession = Callable[[Graph, Tracing], Session]


def saver_graph(graph: Graph) -> Graph:
    """Over the variables of `graph`, each where that one requests it."""
    variables = variables_of(graph)
    copies: dict[str, list[Node]] = {}
    for node in variables:
        at = node.with_(requested_device=_device_of(node, graph))
        copies.setdefault(node.attrs.get(COPY_OF, node.name), []).append(at)
    by_device: dict[str, list[_Copies]] = {}
    for every in copies.values():
        by_device.setdefault(every[0].requested_device, []).append(every)
    others = {node.attrs[SAVED_AS] for node in variables if SAVED_AS in node.attrs}
    nodes = [*variables, *map(graph.__getitem__, sorted(others))]
    nodes.append(Node(PREFIX, "Placeholder", attrs={"dtype": "string", "shape": []}))
    nodes += (_is_initialized(node) for node in variables)
    saves, restores = [], []
    for shard, (device, there) in enumerate(by_device.items()):
        made = _Shard(shard, len(by_device), device, there)
        nodes += made.nodes()
        saves.append(made.save)
        restores += made.assigns
    nodes.append(Node(SAVE, "NoOp", control_inputs=tuple(saves)))
    nodes.append(Node(RESTORE, "NoOp", control_inputs=tuple(restores)))
    return Graph(nodes)


def _device_of(variable: Node, graph: Graph) -> str:
    """The request that counts for it: a slot asks for nothing and goes with its variable."""
    beside = (graph.get(name) for name in variable.colocated_with)
    asked = (node.requested_device for node in beside if node is not None)
    return variable.requested_device or next(filter(None, asked), "")


def _is_initialized(variable: Node) -> Node:
    return Node(
        f"save/is_initialized/{variable.name}",
        "VarIsInitializedOp",
        (Input(variable.name),),
        requested_device=variable.requested_device,
    )


class _Shard:
    """The variables of one device, each with its copies; files are the work of its task's CPU."""

    def __init__(self, number: int, count: int, device: str, copies: Sequence[_Copies]) -> None:
        self._number = number
        self._count = count
        self._device = device
        host = DeviceSpec.parse("/device:CPU:0")
        self._host = str(host.merged_over(DeviceSpec.parse(device)))
        self._copies = copies
        self._variables = [first for first, *_ in copies]
        self.save = f"save/SaveV2_{number}"
        self._restore = f"save/RestoreV2_{number}"
        self.assigns = [f"save/Assign/{node.name}" for every in copies for node in every]

    def nodes(self) -> Iterator[Node]:
        names = [node.name for node in self._variables]
        told = f"save/SaveV2_{self._number}"
        yield self._const(f"{told}/tensor_names", "string", names)
        yield self._const(f"{told}/shape_and_slices", "string", [""] * len(names))
        yield from self._save_nodes(told)
        yield from self._restore_nodes(told)

    def _save_nodes(self, told: str) -> Iterator[Node]:
        yield self._const(f"{told}/shard", "int32", self._number)
        yield self._const(f"{told}/num_shards", "int32", self._count)
        parts = (Input(PREFIX), Input(f"{told}/shard"), Input(f"{told}/num_shards"))
        yield self._on_host(f"save/ShardedFilename_{self._number}", "ShardedFilename", parts)
        for every in self._copies:
            yield from self._value_nodes(every if _reduction(every) else every[:1])
        inputs = (
            Input(f"save/ShardedFilename_{self._number}"),
            Input(f"{told}/tensor_names"),
            Input(f"{told}/shape_and_slices"),
            *(
                Input(f"save/{_reduction(every) or 'Read'}/{every[0].name}")
                for every in self._copies
            ),
        )
        dtypes = [node.attrs["dtype"] for node in self._variables]
        yield self._on_host(self.save, "SaveV2", inputs, dtypes=dtypes)

    def _value_nodes(self, copies: _Copies) -> Iterator[Node]:
        for node in copies:
            yield Node(
                f"save/Read/{node.name}",
                "ReadVariableOp",
                (Input(node.attrs.get(SAVED_AS, node.name)),),
                requested_device=node.requested_device,
                attrs={"dtype": node.attrs["dtype"]},
                specs=(_spec(node),),
            )
        if len(copies) == 1:
            return
        name, spec, device = copies[0].name, _spec(copies[0]), self._device
        count = literal_of(spec.dtype, len(copies))
        is_mean = _reduction(copies) == "Mean"
        parts = [f"save/Read/{node.name}" for node in copies]
        summed: _Made = ("Sum", "AddN", parts, {"N": len(copies), "T": spec.dtype})
        averaged: tuple[_Made, ...] = (
            ("Count", "Const", [], {"dtype": spec.dtype, "value": count}),
            ("Mean", "RealDiv", [f"save/Sum/{name}", f"save/Count/{name}"], {"T": spec.dtype}),
        )
        for made, op, inputs, attrs in (summed, *(averaged if is_mean else ())):
            sources = tuple(map(Input, inputs))
            yield Node(f"save/{made}/{name}", op, sources, requested_device=device, attrs=attrs)

    def _restore_nodes(self, told: str) -> Iterator[Node]:
        inputs = (Input(PREFIX), Input(f"{told}/tensor_names"), Input(f"{told}/shape_and_slices"))
        specs = [_spec(node) for node in self._variables]
        yield self._on_host(
            self._restore,
            "RestoreV2",
            inputs,
            dtypes=[spec.dtype for spec in specs],
            shapes=[list(spec.shape) for spec in specs],
        )
        for port, every in enumerate(self._copies):
            for number, node in enumerate(every):
                value = Input(self._restore, port)
                if number and _reduction(every) == "Sum":
                    zeros = f"save/Zeros/{node.name}"
                    attrs = {"T": node.attrs["dtype"]}
                    device = node.requested_device
                    yield Node(zeros, "ZerosLike", (value,), requested_device=device, attrs=attrs)
                    value = Input(zeros)
                yield Node(
                    f"save/Assign/{node.name}",
                    "AssignVariableOp",
                    (Input(node.name), value),
                    requested_device=node.requested_device,
                    attrs={"dtype": node.attrs["dtype"]},
                )

    def _const(self, name: str, dtype: str, value: Any) -> Node:
        return self._on_host(name, "Const", (), dtype=dtype, value=literal_of(dtype, value))

    def _on_host(self, name: str, op: str, inputs: tuple[Input, ...], **attrs: Any) -> Node:
        return Node(name, op, inputs, requested_device=self._host, attrs=attrs)


def _reduction(copies: _Copies) -> str:
    """What one value of them all is, where each replica keeps its own: `Mean` or `Sum`, else ""."""
    rules = copies[0].attrs
    if len(copies) == 1 or SAVED_AS in rules or rules.get("_synchronization") != ON_READ:
        return ""
    return {MEAN: "Mean", SUM: "Sum"}.get(rules.get("_aggregation", ""), "")


def _spec(variable: Node) -> TensorSpec:
    return TensorSpec(variable.attrs["dtype"], tuple(variable.attrs["shape"]))


def _task_of(device: str) -> str:
    """Empty for a device of no cluster."""
    spec = DeviceSpec.parse(device)
    return "" if spec.job in (None, LOCALHOST) else f"{spec.job}:{spec.task}"


def lost_error(lost: Mapping[str, Sequence[str]]) -> StepError:
    """That nothing brings them back. `lost`: variables by the device that should hold them."""
    task = _task_of(next(iter(lost)))
    every = ", ".join(name for names in lost.values() for name in names)
    return StepError(
        "FAILED_PRECONDITION",
        f"{task or 'the task'} was started again, and the variables that it held are gone: {every}."
        " There is no checkpoint to restore them from, and first values would undo the training in "
        "silence: run with --checkpoint DIR and --checkpoint-every N",
        task=task,
    )


def torn_error() -> StepError:
    """A group lost one of its own in a step, and there is no checkpoint to go back to."""
    return StepError(
        "FAILED_PRECONDITION",
        "a task died, and the step that broke off with it may have moved some variables, or copies "
        "of them, and not others. There is no checkpoint that all workers could go back to: run "
        "with --checkpoint DIR and --checkpoint-every N",
    )


class Saver:
    """Saves and restores the variables of `graph`; its session is opened when first needed.

    Methods raise StepError.
    """

    def __init__(
        self,
        open_session: OpenSession,
        graph: Graph,
        checkpoints: Checkpoints | None,
        tracing: Tracing,
    ) -> None:
        self._open_session = open_session
        self._variables = {node.name: _device_of(node, graph) for node in variables_of(graph)}
        self._graph = saver_graph(graph)
        saved = (node for node in variables_of(graph) if COPY_OF not in node.attrs)
        self._num_saved = len(list(saved))
        self._num_shards = sum(node.op == "SaveV2" for node in self._graph.nodes)
        self._checkpoints = checkpoints
        self._tracing = tracing
        self._context = NO_TRACING.run
        self._session: Session | None = None

    @property
    def held(self) -> Mapping[str, list[str]]:
        """Variables by the task that holds them."""
        found: dict[str, list[str]] = {}
        for name, device in self._variables.items():
            if task := _task_of(device):
                found.setdefault(task, []).append(name)
        return found

    def lost(self) -> Mapping[str, list[str]]:
        """Variables without a value, by the device that should hold them."""
        if not self._variables:
            return {}
        values = self._run([f"save/is_initialized/{name}:0" for name in self._variables], {})
        found: dict[str, list[str]] = {}
        for (name, device), value in zip(self._variables.items(), values, strict=True):
            if not value.item():
                found.setdefault(device, []).append(name)
        return found

    def save(self, step: int) -> None:
        if self._checkpoints is not None:
            self._traced("checkpoint.save", SAVE, self._checkpoints, step)

    def restore(self, step: int) -> None:
        assert self._checkpoints is not None
        self._traced("checkpoint.restore", RESTORE, self._checkpoints, step)

    def _traced(self, kind: str, target: str, checkpoints: Checkpoints, step: int) -> None:
        with self._tracing.recorder.span(kind, self._tracing.run) as span:
            self._context = span.context
            try:
                self._run(target, {f"{PREFIX}:0": literal_of("string", checkpoints.prefix(step))})
            finally:
                self._context = NO_TRACING.run
            if target == SAVE:
                checkpoints.commit(step, self._num_shards)
            self._tell(span, checkpoints, step)

    def _tell(self, span: RareSpan, checkpoints: Checkpoints, step: int) -> None:
        files = checkpoints.files(step)
        span.set("vizdist.checkpoint.step", step)
        span.set("vizdist.checkpoint.variables", self._num_saved)
        span.set("vizdist.checkpoint.shards", len(files))
        span.set("vizdist.bytes", sum(path.stat().st_size for path in files))

    def _run(self, fetches: str | list[str], feeds: Mapping[str, Any]) -> Any:
        if self._session is None:
            self._session = self._open_session(self._graph, self._aside())
        return self._session.run(fetches, feeds)

    def _aside(self) -> Tracing:
        """Its steps are no steps of the run: they lie within the span of what asked for them."""

        def step(_: int) -> SpanContext:
            return self._context

        return Tracing(self._tracing.recorder, NO_TRACING.run, step)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
