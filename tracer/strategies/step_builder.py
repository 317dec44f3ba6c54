"""One training step of several replicas, built from steps captured for one.

    replica r:  its rows ─► forward ─► loss · n_r/N ─► backward ─┐        on the device of replica r
    merge:                                            gradients ─┴► sum of all replicas
    update:     each copy of each variable takes the sums         on the device of the copy

A captured loss is the mean over its batch. Each counts as its rows do among the N of the *global*
batch, so the sum of losses is the mean over the global batch, gradients add up to its gradient, and
any number of replicas takes the same step as one alone (TF: `compute_average_loss`). A replica
whose batch is empty gives zeros and takes the same updates.

What no gradient reaches (BatchNorm's statistics) is SyncOnRead: each replica keeps its own, and who
reads it from outside, an evaluation or a checkpoint, reads the mean.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from tracer.capture_graph.capture import CapturedStep, variables_of
from tracer.capture_graph.state import const
from tracer.model.graph import HANDLES, Input, Literal, Node, TensorSpec
from tracer.model.literal import literal_of
from tracer.strategies.contexts import ReplicaContext, UpdateContext, current
from tracer.strategies.cross_device import STANDS_FOR, ReductionToOneDevice
from tracer.strategies.distributed_step import DistributedStep, a_step
from tracer.strategies.distribution import Distribution, creation_of
from tracer.strategies.replica_names import GRADIENT, SCALED, ReplicaNames, prefix
from tracer.strategies.sharded import OFFSET, PART_OF
from tracer.strategies.step_parts import Slot, StepParts
from tracer.strategies.values import (
    MEAN,
    NONE,
    ON_READ,
    ON_WRITE,
    ONLY_FIRST_REPLICA,
    SUM,
    Copy,
    DistributedVariable,
    PerReplica,
    copy_names,
)


class StepBuilder:
    """Builds one step with a `Distribution`, whose builder has no nodes yet.

    `steps[r]` is of replica r; `shares[r]`: how much its loss counts, 0 where it has no rows. A
    strategy that merges gradients in another way overrides `apply_gradients`.
    """

    of_one_copy = ON_WRITE  #: synchronization of statistics that have one copy in this graph

    def __init__(
        self,
        distribution: Distribution,
        steps: Sequence[CapturedStep | None],
        shares: Sequence[float],
    ) -> None:
        self.distribution = distribution
        self.builder = distribution.builder
        self.steps = tuple(s if share else None for s, share in zip(steps, shares, strict=True))
        self.template = StepParts(a_step(steps))
        self.parts = self._parts()
        self.variables = self._distributed()
        self.names = ReplicaNames(self.variables, shares)
        self._shares = shares
        self._updates: dict[str, list[str]] = {}  # by device
        self._loss = Input("")  # of the global batch, once the replicas have met

    def build(self) -> DistributedStep:
        step, distribution = self.template.step, self.distribution
        self._create()
        with distribution.scope():
            losses = distribution.run(self._replica_step)
            total = self._loss
            several = self._several(losses)
            loss = Node(
                Input.parse(step.loss).node, "Identity", (total,), specs=(self._spec(total),)
            )
            attrs = {"T": loss.specs[0].dtype, "_phase": "forward"}
            self._keep(loss.with_(attrs=attrs), distribution.devices[0])
            self._add_evaluation(step)
        self._add_targets()
        feeds = [
            f"{prefix(replica)}{feed}"
            for replica, own in enumerate(self.steps)
            if own is not None
            for feed in own.feeds
        ]
        names = step.loss, step.train, step.init, step.evaluation_feeds, step.metric, several
        return DistributedStep(self.builder.graph(), self.steps, tuple(feeds), *names)

    def _parts(self) -> list[StepParts | None]:
        """Of each replica that has rows; those of one captured step are looked up once."""
        known = {id(self.template.step): self.template}
        for step in self.steps:
            if step is not None and id(step) not in known:
                known[id(step)] = StepParts(step)
        return [None if step is None else known[id(step)] for step in self.steps]

    def _distributed(self) -> dict[str, DistributedVariable]:
        """The variables of the captured step with their copies."""
        made = {}
        for node in variables_of(self.template.graph):
            devices = self.distribution.copies_on(node.name)
            spec = TensorSpec(node.attrs["dtype"], tuple(node.attrs["shape"]))
            is_trained = self.template.is_trained(node.name)
            made[node.name] = DistributedVariable(
                node.name,
                spec,
                tuple(map(Copy, copy_names(node.name, len(devices)), devices)),
                ON_WRITE if is_trained else self.of_one_copy if len(devices) == 1 else ON_READ,
                NONE if is_trained else _aggregation(spec),
                node.source,
                self.distribution,
            )
        return made

    def _create(self) -> None:
        """Handles and first values, which the first copy has from the captured step."""
        for name, variable in self.variables.items():
            first = self.template.graph[f"{name}/Initializer"]
            self._keep(first, variable.copies[0].device)
            told = self.template.graph[name].attrs
            of_shard = {key: told[key] for key in (PART_OF, OFFSET) if key in told}
            for node in creation_of(variable, Input(first.name)):
                own = of_shard if node.op in HANDLES else {}
                self.builder.keep(node.with_(attrs={**node.attrs, **own}))

    def _replica_step(self) -> Input:
        """What one replica builds; returns its part of the loss."""
        context = current()
        assert isinstance(context, ReplicaContext)
        replica, parts = context.replica, self.parts[context.replica]
        if parts is None:
            zeros = {slot: self._zero(v, replica) for slot, v in self.template.gradients.items()}
            loss = self._zero(Input.parse(self.template.step.loss), replica, SCALED)
            nothing = dict.fromkeys(self.template.statistics)
            context.merge_call(self.apply_gradients, loss, zeros, nothing)
            return loss
        loss = self._add_body(parts, replica)
        gradients = {s: self._gradient(parts, v, replica) for s, v in parts.gradients.items()}
        statistics = {s: self.names.value(parts, v, replica) for s, v in parts.statistics.items()}
        for name in parts.updates:
            if self._is_own(self.variables[parts.owner(name)]):
                self._update(name, replica, statistics)
        context.merge_call(self.apply_gradients, loss, gradients, statistics)
        return loss

    def apply_gradients(
        self,
        distribution: Distribution,
        losses: PerReplica,
        gradients: Mapping[Slot, PerReplica],
        statistics: Mapping[Slot, PerReplica],
    ) -> None:
        """The merge: sums gradients over the replicas and updates every copy with the sums.

        The loss comes first: it is there before the gradients, and meets while they are computed.
        Where no replica has rows, there are no statistics, and they stay as they are.
        """
        self._loss = self._total(losses)
        values = {**self._summed(gradients), **self._averaged(statistics)}
        has_rows = any(self.parts)
        for name in self.template.updates:
            variable = self.variables[self.template.owner(name)]
            is_moved = has_rows or self.template.is_trained(variable.name)
            if is_moved and not self._is_own(variable):
                update = partial(self._update_in_context, name)
                distribution.update(variable, update, values)

    def _is_own(self, variable: DistributedVariable) -> bool:
        """Whether each replica writes its own copy, of its own value."""
        return variable.synchronization == ON_READ

    def _destinations(self, slot: Slot) -> tuple[str, ...]:
        owner = self.template.owner(slot[0])
        if not owner:
            owner = next(iter(self.variables))
        return tuple(copy.device for copy in self.variables[owner].copies)

    def _summed(self, gradients: Mapping[Slot, PerReplica]) -> dict[Slot, PerReplica]:
        """All that go to the same devices in one reduction, each tensor once."""
        summed: dict[Slot, PerReplica] = {}
        for devices in dict.fromkeys(map(self._destinations, gradients)):
            slots = [slot for slot in gradients if self._destinations(slot) == devices]
            sources = {self.template.gradients[slot]: gradients[slot] for slot in slots}
            made = self.distribution.batch_reduce(SUM, list(sources.values()), devices)
            sums = dict(zip(sources, map(tuple, made), strict=True))
            summed |= {s: PerReplica(sums[self.template.gradients[s]]) for s in slots}
        return summed

    def _averaged(self, statistics: Mapping[Slot, PerReplica]) -> dict[Slot, PerReplica]:
        """For variables with one copy: the mean of what the replicas with rows have."""
        averaged: dict[Slot, PerReplica] = {}
        for slot, value in statistics.items():
            variable = self.variables[self.template.owner(slot[0])]
            given = [each for each in value.values if each is not None]
            if given and not self._is_own(variable):
                device = variable.copies[0].device
                averaged[slot] = PerReplica((self._mean(given, device, variable.aggregation),))
        return averaged

    def _mean(self, values: list[Input], device: str, aggregation: str) -> Input:
        if aggregation == ONLY_FIRST_REPLICA or len(values) == 1:
            return values[0]
        [(total,)] = ReductionToOneDevice().batch_reduce(self.builder, [values], [device])
        return self.distribution.over(self.distribution.at(device), total, len(values))

    def _add_body(self, parts: StepParts, replica: int) -> Input:
        """Forward and backward of one replica, its loss scaled. Gives that loss."""
        device = self.distribution.devices[replica]
        start = parts.backward_start if self._shares[replica] != 1 else None
        share = self._share(parts, replica) if start else None
        for node in parts.body.values():
            read = self.variables.get(parts.used_variable(node.name))
            at = self.names.copy(read, replica).device if read else device
            self._keep(self.names.renamed(parts, node, replica), at)
            if node is start and share is not None:
                self._scaled(Input(node.name), share, parts, replica, GRADIENT)
        loss = Input.parse(parts.step.loss)
        if share is None:
            return self.names.value(parts, loss, replica)
        return self._scaled(loss, share, parts, replica, SCALED)

    def _share(self, parts: StepParts, replica: int) -> Input:
        loss = Input.parse(parts.step.loss)
        dtype = parts.graph[loss.node].specs[loss.port].dtype
        name = f"{prefix(replica)}loss/share"
        made = const(name, literal_of(dtype, self._shares[replica]), {"_phase": "forward"})
        return self._keep(made, self.distribution.devices[replica])

    def _scaled(
        self, value: Input, share: Input, parts: StepParts, replica: int, name: str
    ) -> Input:
        node = parts.graph[value.node]
        phase = {"T": node.specs[0].dtype, "_phase": node.attrs["_phase"]}
        inputs = (Input(self.names.of_node(parts, value.node, replica)), share)
        made = Node(f"{prefix(replica)}{name}", "Mul", inputs, attrs=phase, specs=node.specs)
        return self._keep(made, self.distribution.devices[replica])

    def _gradient(self, parts: StepParts, source: Input, replica: int) -> Input:
        """What others are to add up says its shape."""
        made = self.names.value(parts, source, replica)
        if self.builder[made.node].specs or source in parts.of_rows:
            return made
        spec = parts.spec(source)
        attrs = {"T": spec.dtype, "_phase": "backward"}
        name = f"{made.node}/Identity_{made.port}"
        node = Node(name, "Identity", (made,), attrs=attrs, specs=(spec,))
        return self._keep(node, self.distribution.devices[replica])

    def _update_in_context(self, name: str, values: Mapping[Slot, Input]) -> None:
        context = current()
        assert isinstance(context, UpdateContext)
        self._update(name, context.copy, values)

    def _update(self, name: str, copy: int, values: Mapping[Slot, Input]) -> None:
        """One of the updates of the captured step, on copy `copy` of its variable."""
        device = self.names.copy(self.variables[self.template.owner(name)], copy).device
        for node in self.template.update_of(name).values():
            slots = [(node.name, number) for number in range(len(node.inputs))]
            inputs = [
                values[slot] if slot in values else self._of_update(source, copy)
                for slot, source in zip(slots, node.inputs, strict=True)
            ]
            controls = [c for name in node.control_inputs for c in self._awaited(name, copy)]
            self._keep(
                node.with_(
                    name=f"{prefix(copy)}{node.name}",
                    inputs=tuple(inputs),
                    control_inputs=tuple(controls),
                    attrs=self.names.attrs(node, copy),
                ),
                device,
            )
        self._updates.setdefault(device, []).append(f"{prefix(copy)}{name}")

    def _of_update(self, source: Input, copy: int) -> Input:
        if variable := self.variables.get(source.node):
            return Input(self.names.copy(variable, copy).name)
        if read := self.template.read_variable(source.node):
            return Input(self._read(self.variables[read], copy))
        return source._replace(node=f"{prefix(copy)}{source.node}")

    def _read(self, variable: DistributedVariable, copy: int) -> str:
        """The read of a copy, made if no replica has it."""
        name, copied = self.names.read(variable, copy), self.names.copy(variable, copy)
        if name not in self.builder:
            node = self.template.graph[f"{variable.name}/Read"]
            renamed = node.with_(name=name, inputs=(Input(copied.name),))
            self._keep(renamed, copied.device)
        return name

    def _awaited(self, name: str, copy: int) -> list[str]:
        """What a control input of an update becomes: of a read, the reads of all whom it serves."""
        read = self.template.read_variable(name)
        if not read:
            return [f"{prefix(copy)}{name}"]
        variable = self.variables[read]
        if len(variable.copies) > 1:
            return [self._read(variable, copy)]
        readers = range(len(self.steps))
        names = [self.names.read(variable, replica) for replica in readers]
        return [name for name in names if name in self.builder] or [self._read(variable, copy)]

    def _total(self, losses: PerReplica) -> Input:
        return self.distribution.reduce(SUM, losses)

    def _several(self, losses: PerReplica) -> str:
        """The losses side by side, where there are several."""
        if len(losses.values) == 1:
            return ""
        spec = self._spec(losses.values[0])
        whole = TensorSpec(spec.dtype, (len(losses.values),))
        attrs = {"T": spec.dtype, "N": len(losses.values), "axis": 0, "_phase": "forward"}
        device = self.distribution.devices[0]
        node = Node("loss/of_replicas/scaled", "Pack", losses.values, attrs=attrs, specs=(whole,))
        scaled = self._keep(node, device)
        shares = const("loss/of_replicas/shares", literal_of(spec.dtype, list(self._shares)), {})
        inputs, attrs = (scaled, self._keep(shares, device)), {"T": spec.dtype, "_phase": "forward"}
        node = Node("loss/of_replicas", "RealDiv", inputs, attrs=attrs, specs=(whole,))
        return f"{self._keep(node, device)}:0"

    def _add_evaluation(self, step: CapturedStep) -> None:
        """The forward pass that judges, on replica 0, with the variables as seen from outside."""
        if not step.metric:
            return
        parts = self.template
        seen: dict[str, Input] = {}
        for node in parts.evaluation.values():
            if read := parts.read_variable(node.name):
                seen[node.name] = self._seen_from_outside(self.variables[read])
                continue
            inputs = tuple(seen.get(s.node, s) for s in node.inputs)
            used = self.variables.get(parts.used_variable(node.name))
            at = used.copies[0].device if used else self.distribution.devices[0]
            self._keep(node.with_(inputs=inputs), at)

    def _seen_from_outside(self, variable: DistributedVariable) -> Input:
        """The first copy, or the mean of those here: others do not evaluate, and would not meet."""
        if not self._is_own(variable):
            return Input(self._read(variable, 0))
        copies = [Input(self._read(variable, copy)) for copy in range(len(variable.copies))]
        return self._mean(copies, self.distribution.devices[0], variable.aggregation)

    def _add_targets(self) -> None:
        """`train` ends when every update has; updates of another device meet there first."""
        step, (main, *others) = self.template.step, self._updates
        groups = []
        for number, device in enumerate(others, 1):
            updates = tuple(self._updates[device])
            name = f"{step.train}/group_{number}"
            groups.append(Node(name, "NoOp", (), updates, attrs={"_phase": "update"}))
            self._keep(groups[-1], device)
        ends = (*self._updates[main], *(group.name for group in groups))
        self._keep(Node(step.train, "NoOp", (), ends, attrs={"_phase": "update"}), main)
        copies = [copy for variable in self.variables.values() for copy in variable.copies]
        assigns = tuple(f"{copy.name}/Assign" for copy in copies)
        self._keep(Node(step.init, "NoOp", (), assigns), main)

    def _zero(self, source: Input, replica: int, name: str = "") -> Input:
        """Of the shape of what replicas with rows have there."""
        attrs = {STANDS_FOR: self._gradient_name(source)}
        named = f"{source.node}/zero_{source.port}" if source.port else source.node
        zero = const(
            f"{prefix(replica)}{name or named}", zeros(self.template.without_rows(source)), attrs
        )
        return self._keep(zero, self.distribution.devices[replica])

    def _gradient_name(self, source: Input) -> str:
        """What the first replica, if it has rows, calls what it gives the others."""
        is_itself = self.template.graph[source.node].specs or source in self.template.of_rows
        return source.node if is_itself else f"{source.node}/Identity_{source.port}"

    def _spec(self, value: Input) -> TensorSpec:
        return self.builder[value.node].specs[value.port]

    def _keep(self, node: Node, device: str) -> Input:
        return self.builder.keep(node.with_(requested_device=device))


def zeros(spec: TensorSpec) -> Literal:
    return Literal(spec.dtype, spec.shape, bytes(spec.num_bytes))


def _aggregation(spec: TensorSpec) -> str:
    """How what no gradient reaches is read as one: counts have no mean, and are all the same."""
    return MEAN if spec.dtype.startswith(("float", "bfloat")) else ONLY_FIRST_REPLICA
