"""The client loop of a graph made by hand: its `init`, its steps, what it is judged by.

Its variables are saved and restored where it asks for none of that itself (SaveV2, RestoreV2).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count, islice, repeat
from typing import Any, Protocol

from torch import Tensor

from tracer.capture_graph.capture import variables_of
from tracer.model.graph import Graph, GraphError
from tracer.model.graph_json import GraphFile
from tracer.model.metric import Metric
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.registry import lookup
from tracer.ops.variable import declared_spec
from tracer.passes.placer import Placer
from tracer.passes.prune import prune
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import NO_TRACING, Session, Tracing, Value
from tracer.training.client_loop import ClientLoop
from tracer.training.line import Line, Ready
from tracer.training.saver import OpenSession, Saver
from tracer.training.trainer import Fit, record_metric

Feeds = Mapping[str, Tensor]

_OWN_SAVES = ("SaveV2", "RestoreV2")


class RunnableGraph(Protocol):
    """What a graph workload offers; `tracer.workloads.graph_workload` says more."""

    @property
    def given(self) -> GraphFile: ...

    @property
    def feeds(self) -> Callable[[int], Iterator[Feeds]] | None: ...

    @property
    def loss(self) -> str: ...

    @property
    def evaluation(self) -> Callable[[], tuple[str, str, Feeds]] | None: ...


def saves_itself(graph: Graph) -> bool:
    return any(node.op in _OWN_SAVES for node in graph.nodes)


def variables_of_steps(given: GraphFile, placer: Placer) -> Graph:
    """The variables that its steps use, and nothing else: each requests the device it is placed on.

    Raises GraphError, also for a variable whose shape is open: nobody could tell what to restore.
    """
    run, at = given.run, given.client_device
    used = prune(given.graph, run.feeds, run.fetches, run.targets, at)
    variables = variables_of(placer.place(used, given.devices, at, lookup))
    for node in variables:
        if declared_spec(node) is None:
            raise GraphError(
                f"variable {node.name!r} leaves its shape open ({node.attrs.get('shape')}), so it "
                "cannot be saved or restored; give it a whole shape, such as [3, 2]"
            )
    return Graph(node.with_(requested_device=node.device, device="") for node in variables)


class GraphTrainer(ClientLoop):
    """The only client of a graph. `open_session(graph, tracing)` makes its sessions.

    They all see the same variables, of which `variables` names those to save, with their devices.
    """

    _session: Session

    def __init__(
        self,
        open_session: OpenSession,
        workload: RunnableGraph,
        variables: Graph,
        tracing: Tracing,
        fit: Fit,
    ) -> None:
        super().__init__(tracing, fit.checkpoints, fit.again, is_chief=True)
        self._open_session = open_session
        self._workload = workload
        self._given = workload.given
        self._variables = variables
        self._fit = fit
        self._context = tracing.run  # of the step in progress
        self._values: Sequence[Value] = ()  # of the last step
        self._open: list[Session | Saver] = []

    def run(self, line: Line) -> tuple[Sequence[Value], Metric | None]:
        """The values of the last step by `run.names`, and what they were judged as."""

        def steps() -> tuple[Sequence[Value], Metric | None]:
            self._run_steps(line)
            self._save_the_last()
            return self._values, self._evaluate()

        return self._to_the_end(line, steps)

    def close(self) -> None:
        """Also after a loss: what cannot be reached any more frees itself."""
        while self._open:
            with suppress(StepError):
                self._open.pop().close()

    def _begin(self, line: Line) -> None:
        self.close()
        in_step = Tracing(self._tracing.recorder, self._tracing.run, lambda _: self._context)
        self._session = self._open_session(self._given.graph, in_step)
        self._open.append(self._session)
        self._saver = Saver(self._open_session, self._variables, self._checkpoints, self._tracing)
        self._open.append(self._saver)
        ready = self._found_again() if self._round.has_begun else self._ready()
        self._done = line.line_up(ready)

    def _ready(self) -> Ready:
        """`init` makes more than variables, so it runs also where a checkpoint has those."""
        if self._given.run.init:
            self._run_aside(self._given.run.init)
        self._done = self._restored() or 0
        if not self._done:
            self._save_if_due(0)
        return Ready(self._done, held=self._saver.held)

    def _run_aside(self, name: str, feeds: Feeds | None = None) -> Any:
        """Apart from the record."""
        with self._open_session(self._given.graph, NO_TRACING) as aside:
            return aside.run(name, feeds)

    def _run_steps(self, line: Line) -> None:
        run, loss = self._given.run, self._workload.loss
        record = {"vizdist.loss": loss} if loss else {}
        feeds = self._feeds(self._done)
        for number in range(self._done + 1, self._fit.steps + 1):
            line.on_step(number)
            self._context = self._context_of(number)
            self._values = self._session.run(run.names, next(feeds), record)
            self._done = number
            self._save_if_due(number)

    def _feeds(self, done: int) -> Iterator[Feeds]:
        """Of the steps after `done`: what every step gets, and the next of the workload's own."""
        every = {n: literal_to_tensor(each) for n, each in self._given.run.feeds.items()}
        if self._workload.feeds is None:
            yield from repeat(every)
            return
        own = self._workload.feeds(self._fit.seed)
        next(islice(own, done, done), None)
        for number in count(done + 1):
            with self._tracing.recorder.span("data.next", self._context) as span:
                taken = next(own, None)
                if taken is None:
                    raise StepError(
                        "OUT_OF_RANGE",
                        f"End of sequence: the feeds ended before step {number}; let them repeat",
                    )
                span.set("vizdist.batch", max(map(_num_rows, taken.values()), default=0))
            yield {**every, **taken}

    def _evaluate(self) -> Metric | None:
        if self._workload.evaluation is None:
            return None
        name, fetch, feeds = self._workload.evaluation()
        with self._tracing.recorder.span("train.evaluate", self._tracing.run) as span:
            metric = Metric(name, float(self._run_aside(fetch, feeds)))
            record_metric(span, metric, max(map(_num_rows, feeds.values()), default=0))
        return metric


def _num_rows(tensor: Tensor) -> int:
    return len(tensor) if tensor.dim() else 1
