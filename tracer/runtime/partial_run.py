"""A step whose feeds and fetches come in several calls (TF `MasterSession::DoPartialRun`).

All calls have one step id. The first starts the executors, each brings feeds and takes fetches,
each feed and fetch once; the one that leaves nothing over is the last and ends the step.
"""

import contextlib
import threading

from tracer.model.graph import Graph, Input
from tracer.model.step import new_step_id
from tracer.runtime.client_graph import ClientGraph, ClientPart
from tracer.runtime.interfaces import RequestNames, RunGraphRequest, RunStepRequest, StepError
from tracer.runtime.master_step import MasterStep, StepEnded, clean_up


class PartialRun:
    """What of a partial run is still to come. `graph` is made of `whole`."""

    def __init__(self, graph: ClientGraph, whole: Graph, names: RequestNames) -> None:
        self.step_id = new_step_id()
        self.graph = graph
        self._whole = whole
        self._lock = threading.Lock()
        self._is_busy = False
        self._is_fed = dict.fromkeys(names.feeds, False)
        self._is_fetched = dict.fromkeys(names.fetches, False)

    def take(self, request: RunStepRequest) -> bool:
        """Begins a call with its feeds and fetches; whether it is the last. Raises StepError."""
        with self._lock:
            if self._is_busy:
                raise StepError(
                    "FAILED_PRECONDITION",
                    f"a call of partial run {request.partial_run} still runs; make one after the "
                    "other",
                )
            for name in request.feeds:
                _check_pending("feed", "fed", name, self._is_fed)
            for name in request.fetches:
                _check_pending("fetch", "fetched", name, self._is_fetched)
            waits_for = {
                Input.parse(name)
                for name, is_fed in self._is_fed.items()
                if not is_fed and name not in request.feeds
            }
            for name in request.fetches:
                self._check_computable(name, waits_for)
            self._is_busy = True
            self._is_fed |= dict.fromkeys(request.feeds, True)
            self._is_fetched |= dict.fromkeys(request.fetches, True)
            return all(self._is_fed.values()) and all(self._is_fetched.values())

    def end_call(self) -> None:
        self._is_busy = False

    def _check_computable(self, fetch: str, waits_for: set[Input]) -> None:
        """Raises StepError if the fetch needs a feed that is still to come."""
        pending = [Input.parse(fetch)]
        fed = {Input.parse(name) for name in self._is_fed} - waits_for
        seen: set[str] = set()
        while pending:
            source = pending.pop()
            if source in waits_for:
                raise StepError(
                    "INVALID_ARGUMENT",
                    f"Fetch {fetch} can't be computed from the feeds that have been fed so far.",
                )
            if source in fed or source.node in seen:
                continue
            seen.add(source.node)
            node = self._whole[source.node]
            pending += [*node.inputs, *map(Input, node.control_inputs)]

    def give_up(self, error: StepError) -> None:
        """Ends the step between two calls."""
        for part in self.graph.parts:
            with contextlib.suppress(StepError):
                part.worker.start_abort(self.step_id, error.as_derived())
        clean_up(self.graph, self.step_id)


def _check_pending(role: str, done: str, name: str, table: dict[str, bool]) -> None:
    if name not in table:
        text = f"The {role} {name} was not specified in partial_run_setup."
    elif table[name]:
        text = f"The {role} {name} has already been {done}."
    else:
        return
    raise StepError("INVALID_ARGUMENT", text)


class PartialStep(MasterStep):
    """One call. The step is over with its last one, or with the first that fails."""

    def __init__(
        self,
        run: PartialRun,
        request: RunStepRequest,
        timeout_s: float,
        ended: StepEnded,
        *,
        is_last: bool,
    ) -> None:
        super().__init__(run.graph, request, timeout_s, ended, step_id=run.step_id)
        self._run = run
        self._is_last = is_last

    @property
    def is_over(self) -> bool:
        return self._is_last or bool(self._errors)

    def _run_graph_request(self, part: ClientPart) -> RunGraphRequest:
        request = self._request
        feeds = request.feeds
        return RunGraphRequest(
            request.session,
            part.handle,
            self.step_id,
            request.context,
            {key: feeds[name] for name, key in part.feed_keys if name in feeds},
            tuple(key for key in part.fetch_keys if part.names[key] in request.fetches),
            "last" if self._is_last else "part",
        )

    def end_call(self) -> None:
        """To be called once nobody holds the call by its step id: the next one has the same."""
        self._run.end_call()

    def _clean_up(self) -> None:
        if self.is_over:
            super()._clean_up()
