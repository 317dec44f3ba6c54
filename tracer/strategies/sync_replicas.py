"""Synchronous training on parameter servers (TF `sync_replicas_optimizer.py`).

    ps:0       w/grad_accum ◄── gradients, each with the step it was made in; stale ones are dropped
               w ◄─ update ◄─ their mean, once enough are in ─► global_step + 1 ─► sync_token_q
    worker:0   forward · backward ─► gradients · makes the update (the chief)
    worker:1   forward · backward ─► gradients · waits for a token: the new step

Every worker puts its gradients into accumulators beside the variables, with its *local step*. The
chief takes the mean of the first `workers - backup_workers` of each, updates, and gives every other
worker a token, with which that begins its next step. What comes from a backup worker after that is
older than the accumulator's step, and is dropped and counted. Of a table's gradient only rows come,
each with its id: they meet in a SparseConditionalAccumulator.

Before its first step the chief gives every other worker a token too, in a queue of its own, so
that nobody takes two: with it comes the step after which all begin, be it of first values or of a
checkpoint. Queues and accumulators are those of a *round*: after a death all go back together, to
new ones, as nobody knows what the old ones hold.

In TF the update is the work of a queue runner, a further thread of the chief; here it is part of
the chief's step, so that one step shows all of it. The chief therefore needs no token.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracer.capture_graph.capture import CapturedStep
from tracer.capture_graph.state import const, together
from tracer.model.cluster import DeviceSpec, TaskName
from tracer.model.graph import Graph, Input, Node, TensorSpec
from tracer.model.literal import literal_of
from tracer.strategies.distributed_step import OF_ROUND, DistributedStep
from tracer.strategies.leaving import Leaving
from tracer.strategies.step_parts import INDICES, Slot, StepParts

GLOBAL_STEP, LOCAL_STEP, TOKENS = "global_step", "sync_rep_local_step", "sync_token_q"
LEFT, FIRST_TOKENS = "sync_rep_left", "sync_first_token_q"
LOCAL_INIT = "local_init"
_STEP = TensorSpec("int64", ())
_PHASE = {"_phase": "update"}


@dataclass(frozen=True, slots=True)
class Rounds:
    """Who takes part: `worker` builds the graph; `wanted` gradients of `workers` make an update."""

    worker: TaskName
    is_chief: bool
    workers: int
    wanted: int

    @property
    def device(self) -> str:
        return str(DeviceSpec(self.worker.job, self.worker.index))

    @property
    def leaving(self) -> Leaving:
        read = f"{LEFT}/Read:0"
        return Leaving(f"{LEFT}/AssignAdd", read, self.worker, self.is_chief, self.wanted)


def synchronous(step: DistributedStep, captured: CapturedStep, rounds: Rounds) -> DistributedStep:
    """The step of one worker, whose updates an asynchronous one would apply by itself.

    `captured`: that of any of its replicas.
    """
    made = _Synchronous(step, captured, rounds)
    return replace(
        step,
        graph=made.graph(),
        local_init=LOCAL_INIT,
        global_step=f"{made.token}:0",
        leaving=rounds.leaving,
    )


class _Synchronous:
    token = "sync_token"  #: the step that comes next, on the worker

    def __init__(self, step: DistributedStep, captured: CapturedStep, rounds: Rounds) -> None:
        self._step = step
        self._rounds = rounds
        self._parts = StepParts(captured)
        self._built = step.graph
        self._accumulators = self._named()
        self._means = self._taken()

    def graph(self) -> Graph:
        step, updates = self._step, self._updates()
        groups = {*self._built[step.train].control_inputs}  # of updates, where there are several
        left_out = ({*self._parts.update} | groups) - {*updates} | {step.train, step.init}
        nodes = [node for node in self._built.nodes if node.name not in left_out]
        init = self._built[step.init]
        made = [*self._steps(), *self._gathering(), *self._leaving(), *self._proceeding()]
        if self._rounds.is_chief:
            made += self._deciding()
        targets = [
            init.with_(control_inputs=(*init.control_inputs, f"{GLOBAL_STEP}/Assign")),
            self._train(),
            Node(LOCAL_INIT, "NoOp", control_inputs=tuple(self._starts())),
        ]
        return Graph([updates.get(n.name, n) for n in (*nodes, *made, *targets)])

    def _named(self) -> dict[tuple[str, Input], str]:
        """(variable, gradient) → the name of its accumulator. Ids of rows come with the rows."""
        named: dict[tuple[str, Input], str] = {}
        for slot, given in self._parts.gradients.items():
            if given in self._parts.slices.values():
                continue
            owner = self._owner(slot)
            known = owner, self._gradient(slot)
            count = sum(variable == owner for variable, _ in named)
            named.setdefault(known, f"{owner}/grad_accum{f'_{count}' if count else ''}")
        return named

    def _ids(self, gradient: Input) -> Input | None:
        """Of the rows that a gradient has, None where it is whole."""
        told = self._built[gradient.node].attrs.get(INDICES)
        return Input.parse(told) if told else None

    def _taken(self) -> Mapping[tuple[str, Input], Input]:
        """(variable, gradient, or the ids of its rows) → the mean of what came."""
        taken: dict[tuple[str, Input], Input] = {}
        for (owner, gradient), name in self._accumulators.items():
            ids = self._ids(gradient)
            taken[owner, gradient] = Input(f"{name}/take", 0 if ids is None else 1)
            if ids is not None:
                taken[owner, ids] = Input(f"{name}/take")
        return taken

    def _spec_of(self, variable: str, gradient: Input) -> TensorSpec:
        """Of a gradient of which there are rows, as if it were whole."""
        if self._ids(gradient) is None:
            return self._built[gradient.node].specs[gradient.port]
        attrs = self._built[variable].attrs
        return TensorSpec(attrs["dtype"], tuple(attrs["shape"]))

    def _owner(self, slot: Slot) -> str:
        """What serves several variables is gathered beside the first."""
        name = self._parts.owner(slot[0])
        if not name:
            return next(iter(self._parts.graph.nodes)).name
        return next(iter(self._parts.graph[name].colocated_with), name)

    def _gradient(self, slot: Slot) -> Input:
        return self._built[slot[0]].inputs[slot[1]]

    def _updates(self) -> Mapping[str, Node]:
        """What this worker updates: the chief all, from what it takes; others what is their own."""
        parts = self._parts
        own = self._of_statistics()
        kept = {n: self._built[n] for name in own for n in parts.update_of(name)}
        if self._rounds.is_chief:
            here = [name for name in parts.update if name in self._built]
            kept |= {name: self._from_taken(self._built[name]) for name in here}
        return kept

    def _from_taken(self, node: Node) -> Node:
        inputs = list(node.inputs)
        for number, source in enumerate(inputs):
            if (slot := (node.name, number)) in self._parts.gradients:
                inputs[number] = self._means[self._owner(slot), source]
        return node.with_(inputs=tuple(inputs))

    def _steps(self) -> Iterator[Node]:
        """The steps of the run and of the worker, and the queue of those that begin."""
        server = str(DeviceSpec("ps", 0))
        yield self._variable(GLOBAL_STEP, server)
        yield const(f"{GLOBAL_STEP}/Initializer", literal_of("int64", 0), together(GLOBAL_STEP))
        yield self._assigned(GLOBAL_STEP, "Assign", Input(f"{GLOBAL_STEP}/Initializer"))
        yield _read(GLOBAL_STEP, "Read")
        yield self._variable(LOCAL_STEP, self._rounds.device, _local=True)
        yield self._assigned(LOCAL_STEP, "Assign", self._first_step)
        yield _read(LOCAL_STEP, "Read")
        queue = {"component_types": ["int64"], "shapes": [[]], "capacity": -1}
        for name in (TOKENS, FIRST_TOKENS):
            yield Node(
                name,
                "FIFOQueueV2",
                requested_device=server,
                attrs={**queue, "shared_name": name, OF_ROUND: True},
                specs=(TensorSpec("resource", ()),),
            )

    @property
    def _first_step(self) -> Input:
        is_chief = self._rounds.is_chief
        return Input(f"{GLOBAL_STEP}/Read" if is_chief else f"{FIRST_TOKENS}/Dequeue")

    def _leaving(self) -> Iterator[Node]:
        """Whose data have ended, by worker; nobody's at first."""
        rounds = self._rounds
        shape = (rounds.workers,)
        own = [int(index == rounds.worker.index) for index in range(rounds.workers)]
        attrs: dict[str, Any] = {"_local": True, OF_ROUND: True, "shape": list(shape)}
        yield self._variable(LEFT, str(DeviceSpec("ps", 0)), **attrs)
        yield const(f"{LEFT}/Initializer", literal_of("int64", [0] * len(own)), together(LEFT))
        yield self._assigned(LEFT, "Assign", Input(f"{LEFT}/Initializer"))
        yield const(f"{LEFT}/own", literal_of("int64", own), together(LEFT))
        yield self._assigned(LEFT, "AssignAdd", Input(f"{LEFT}/own"), "AssignAddVariableOp")
        yield _read(LEFT, "Read").with_(specs=(TensorSpec("int64", shape),))

    def _gathering(self) -> Iterator[Node]:
        """An accumulator beside each variable, and what this worker puts in."""
        for (variable, gradient), name in self._accumulators.items():
            spec, ids = self._spec_of(variable, gradient), self._ids(gradient)
            attrs: dict[str, Any] = {"dtype": spec.dtype, "shape": list(spec.shape)}
            attrs |= {"shared_name": name, "reduction_type": "MEAN", OF_ROUND: True}
            yield Node(
                name,
                _op("ConditionalAccumulator", ids),
                attrs={**attrs, **together(variable)},
                specs=(TensorSpec("resource", ()),),
            )
            given = [Input(f"{LOCAL_STEP}/Read"), gradient]
            if ids is not None:
                shape = literal_of("int64", list(spec.shape))
                whole = const(f"{name}/shape", shape, {**together(variable), **_PHASE})
                yield whole
                given[1:] = ids, gradient, Input(whole.name)
            op = _op("AccumulatorApplyGradient", ids)
            yield self._beside(name, "apply", op, given, spec)

    def _deciding(self) -> Iterator[Node]:
        """What the chief does: take, update, count the step, tell the others."""
        for (variable, gradient), name in self._accumulators.items():
            spec, ids = self._spec_of(variable, gradient), self._ids(gradient)
            wanted = const(
                f"{name}/num_required",
                literal_of("int32", self._rounds.wanted),
                {**together(variable), **_PHASE},
            )
            yield wanted
            op = _op("AccumulatorTakeGradient", ids)
            taken = self._beside(name, "take", op, [Input(wanted.name)], spec)
            yield taken.with_(specs=(spec,)) if ids is None else taken
            step = [Input(f"{GLOBAL_STEP}/Read")]
            op = "ResourceAccumulatorSetGlobalStep"
            yield self._beside(name, "SetGlobalStep", op, step, _STEP)
        one = const(f"{GLOBAL_STEP}/one", literal_of("int64", 1), together(GLOBAL_STEP))
        yield one
        counted = self._assigned(GLOBAL_STEP, "AssignAdd", Input(one.name), "AssignAddVariableOp")
        yield counted.with_(control_inputs=tuple(self._trained()))
        yield _read(GLOBAL_STEP, "Updated").with_(control_inputs=(counted.name,))
        if self._rounds.workers > 1:
            yield from self._tokens()

    def _tokens(self) -> Iterator[Node]:
        """A token for every other worker: after an update, and before the first step."""
        count, beside = self._rounds.workers - 1, {**together(GLOBAL_STEP), **_PHASE}
        dims = const(f"{TOKENS}/dims", literal_of("int32", [count]), beside)
        yield dims
        at_first = [*self._set_global_steps(), f"{LEFT}/Assign"]
        for name, step, after in ((TOKENS, "Updated", []), (FIRST_TOKENS, "Read", at_first)):
            yield Node(
                f"{name}/Fill",
                "Fill",
                (Input(dims.name), Input(f"{GLOBAL_STEP}/{step}")),
                attrs={"T": "int64", "index_type": "int32", **beside},
                specs=(TensorSpec("int64", (count,)),),
            )
            inputs, put = (Input(name), Input(f"{name}/Fill")), f"{name}/EnqueueMany"
            yield Node(put, "QueueEnqueueManyV2", inputs, tuple(after), attrs=_PHASE)

    def _proceeding(self) -> Iterator[Node]:
        """The step that this worker goes on with: the chief's is the new one, others await it."""
        step = Input(f"{GLOBAL_STEP}/Updated")
        if not self._rounds.is_chief:
            applied = tuple(f"{name}/apply" for name in self._accumulators.values())
            step = Input(f"{TOKENS}/Dequeue")
            for name, after in ((TOKENS, applied), (FIRST_TOKENS, ())):
                yield Node(
                    f"{name}/Dequeue",
                    "QueueDequeueV2",
                    (Input(name),),
                    after,
                    attrs={"component_types": ["int64"], **_PHASE},
                    specs=(_STEP,),
                )
        yield Node(
            self.token,
            "Identity",
            (step,),
            requested_device=self._rounds.device,
            attrs={"T": "int64", **_PHASE},
            specs=(_STEP,),
        )
        yield self._assigned(LOCAL_STEP, "Update", Input(self.token)).with_(
            control_inputs=(f"{LOCAL_STEP}/Read",)
        )

    def _starts(self) -> Iterator[str]:
        """What each client runs once the variables are there."""
        yield f"{LOCAL_STEP}/Assign"
        if self._rounds.is_chief:
            yield from (*self._set_global_steps(), f"{LEFT}/Assign")
            yield from [f"{FIRST_TOKENS}/EnqueueMany"] * (self._rounds.workers > 1)

    def _set_global_steps(self) -> Iterator[str]:
        return (f"{name}/SetGlobalStep" for name in self._accumulators.values())

    def _train(self) -> Node:
        rounds = self._rounds
        ends = [f"{LOCAL_STEP}/Update", *self._of_statistics()]
        if rounds.is_chief:
            ends += [f"{name}/apply" for name in self._accumulators.values()]
            ends += [f"{TOKENS}/EnqueueMany"] * (rounds.workers > 1)
        return self._built[self._step.train].with_(control_inputs=tuple(ends))

    def _trained(self) -> list[str]:
        """The updates that wait for gradients."""
        parts = self._parts
        return [name for name in parts.updates if parts.is_trained(parts.owner(name))]

    def _of_statistics(self) -> list[str]:
        """The updates that each worker makes by itself; of a batch without rows there are none."""
        trained = {*self._trained()}
        return [n for n in self._parts.updates if n not in trained and n in self._built]

    def _beside(
        self, accumulator: str, name: str, op: str, inputs: Sequence[Input], spec: TensorSpec
    ) -> Node:
        return Node(
            f"{accumulator}/{name}",
            op,
            (Input(accumulator), *inputs),
            attrs={"dtype": spec.dtype, **_PHASE},
        )

    def _variable(self, name: str, device: str, **attrs: Any) -> Node:
        own = {"dtype": "int64", "shape": [], "shared_name": name, "container": "", **attrs}
        return Node(
            name,
            "VarHandleOp",
            requested_device=device,
            attrs={**own, **together(name)},
            specs=(TensorSpec("resource", ()),),
        )

    def _assigned(
        self, variable: str, name: str, value: Input, op: str = "AssignVariableOp"
    ) -> Node:
        attrs = {"dtype": "int64", **together(variable), **_PHASE}
        return Node(f"{variable}/{name}", op, (Input(variable), value), attrs=attrs)


def _op(name: str, ids: Input | None) -> str:
    """For rows of a gradient TensorFlow has no op on a resource."""
    return f"Resource{name}" if ids is None else f"Sparse{name}"


def _read(variable: str, name: str) -> Node:
    attrs = {"dtype": "int64", **together(variable), **_PHASE}
    inputs = (Input(variable),)
    return Node(f"{variable}/{name}", "ReadVariableOp", inputs, attrs=attrs, specs=(_STEP,))
