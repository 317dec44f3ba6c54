"""One run, from its first process to its last: start, introduce, watch, stop, account.

The launcher is the client's side of a run; it owns no device. Every task is a direct child process,
so that a death is seen at once (`exit` event) and nothing outlives the run.
"""

import logging
import queue
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracer.launch.account import LAUNCHER, Account
from tracer.launch.child import Event
from tracer.launch.crew import Crew
from tracer.launch.failure import Failure, RunFailed, failure_from
from tracer.launch.jobs import Client, Job, drive
from tracer.launch.plan import Life, Plan
from tracer.launch.progress import StepCounter, last_step
from tracer.launch.recording import spans_told, warnings_of
from tracer.launch.signals import undisturbed
from tracer.launch.task import failed_facts, sockets_of
from tracer.launch.watch import RESTART, Order, Phase, Watch
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.step import trace_of_step
from tracer.record.home import make_scratch
from tracer.record.recorder import Recorder
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime.interfaces import StepError
from tracer.training.line import Line, Ready, Round

_log = logging.getLogger(__name__)

POLL_S = 0.1  #: how often the progress line changes
REDIAL_S = 1.2  #: gRPC dials an address that refused it again within a second (rpc/channels.py)
GRACE_S = 5.0  #: the master knows more of a step that hangs, so it speaks first


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to: what each client reported, and the counts of spans."""

    results: Mapping[TaskName, Mapping[str, Any]]
    spans: Mapping[str, int]
    trace: str
    num_bytes: int = 0  #: of tensors that tasks received from one another


#: (what is going on, share done 0…1 or None)
Report = Callable[[str, float | None], None]


def outcome_of_run(
    account: Account, results: Mapping[TaskName, Mapping[str, Any]], num_bytes: int = 0
) -> Outcome:
    """Once the account is closed. Says so if the trace is not whole."""
    for warning in warnings_of(account.counts):
        _log.warning("%s", warning)
    return Outcome(results, spans_told(account.counts), str(account.folder), num_bytes)


def throttled(report: Report, num_steps: int) -> Callable[[int], None]:
    """Reports the step that a client begins, now and then; nothing of a single one."""
    next_time = 0.0

    def on_step(step: int) -> None:
        nonlocal next_time
        now = time.monotonic()
        if num_steps > 1 and now >= next_time:
            next_time = now + POLL_S
            report(f"step {step} of {num_steps}", (step - 1) / num_steps)

    return on_step


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A private folder for rings and step counters, gone with the run."""
    scratch = make_scratch()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class Launcher:
    """Runs a job on child processes, one a task."""

    def __init__(self, plan: Plan, job: Job, report: Report) -> None:
        self._plan = plan
        self._job = job
        self._tasks = tuple(job.cluster.tasks())
        restarts = plan.tolerance.restarts
        self._watch = Watch(self._tasks, job.clients, restarts, job.is_group)
        self._report = report
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._secret = secrets.token_hex(16)
        self._lost_since = 0.0  #: a client waits to hear of the death that it suffers from
        self._made_in = 0  #: the round in which the launcher's own client made its sessions
        self._taking = threading.RLock()

    def run(self) -> Outcome:
        """Runs to the end.

        Raises RunFailed with the root cause, KeyboardInterrupt on Ctrl-C; either way every process
        has ended, and the trace holds what was recorded.
        """
        with (
            scratch_folder() as self._scratch,
            Account(self._plan, self._job.cluster, self._scratch, report=self._report) as account,
        ):
            devices = {task: self._job.devices(task) for task in self._tasks}
            self._crew = Crew(
                self._plan, devices, self._secret, self._scratch, account, self._events
            )
            try:
                self._crew.start()
                self._introduce()
                if not self._job.clients:
                    self._drive(account.recorder)
                else:
                    self._run_to(Phase.FINISHED, self._progress, None)
            finally:
                with undisturbed():
                    self._stop()
        num_bytes = sum(self._watch.received_bytes.values())
        return outcome_of_run(account, self._watch.results, num_bytes)

    def _introduce(self) -> None:
        """Waits for every task's address, then tells all of them the whole cluster."""
        deadline = time.monotonic() + self._plan.limits.connect_s
        self._run_to(Phase.SETTING_UP, self._arrivals, deadline)
        cluster = self._cluster()
        for task in self._tasks:
            self._crew.tell(task, "cluster", cluster=cluster.to_json())

    def _cluster(self) -> ClusterSpec:
        cluster = self._job.cluster
        for task, facts in self._watch.addresses.items():
            cluster = cluster.with_address(task, facts["address"])
        return cluster

    def _drive(self, recorder: Recorder) -> None:
        """The launcher is the client: it dials the job's master."""
        task, cluster = self._job.master, self._cluster()
        master = RemoteMaster(
            cluster.address(task),
            client=LAUNCHER,
            secret=self._secret,
            recorder=recorder,
            context=trace_of_step(self._plan.run_id, "run", 0),
            allow_proxy=self._plan.allow_proxy,
            step_timeout_s=self._plan.limits.step_s + GRACE_S,
            connect_s=self._plan.limits.connect_s,
            sockets=sockets_of(self._plan, self._scratch),
        )
        count = StepCounter(self._scratch, task)
        show = throttled(self._report, self._plan.steps)

        def counter(step: int) -> None:
            count(step)
            show(step)

        recover = self._await_return if self._plan.tolerance.restarts else None
        line = Line(counter, self._begin_steps, recover)
        try:
            with self._attended():
                found = drive(self._job, Client(task, master, cluster, recorder, line))
        except StepError as error:
            failure = failure_from(task, error, last_step(self._scratch, task))
            self._watch.failures.append(failure)
            raise self._failed() from None
        finally:
            master.close()
        self._watch.results[task] = found

    @contextmanager
    def _attended(self) -> Iterator[None]:
        """A task that dies while the client makes its sessions is missed by nobody else.

        The client waits for it to come up, and only here it is started again.
        """
        if not self._plan.tolerance.restarts:
            yield
            return
        is_over = threading.Event()
        thread = threading.Thread(target=self._attend, args=(is_over,), name="attend", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _attend(self, is_over: threading.Event) -> None:
        while not is_over.is_set():
            try:
                self._take(self._events.get(timeout=POLL_S))
            except queue.Empty:
                self._look_after_the_lost()

    def _begin_steps(self, ready: Ready) -> int:
        """The launcher's own client is ready: the watch hears of it as of any other one."""
        with self._taking:
            if self._watch.round != self._made_in:
                raise StepError("ABORTED", "a task of this session died and is started again")
            told = {"round": self._made_in, **asdict(ready)}
            self._take(Event(self._job.master, "ready", told))
        if ready.is_rolled_back:
            self._report(f"goes on after step {ready.step}, from its checkpoint", None)
        return ready.step

    def _await_return(self, error: StepError) -> Round:
        """Until every task that died serves again. Raises the error where no death explains it."""
        watch, deadline = self._watch, time.monotonic() + self._plan.limits.connect_s
        told = {"round": self._made_in, **failed_facts(error)}
        self._take(Event(self._job.master, "lost", told))
        while watch.round == self._made_in or any(watch.missing):
            if any(watch.missing):
                self._arrivals()
            if time.monotonic() > deadline:
                watch.failures.append(self._never_came())
                raise error
            if watch.phase is Phase.FAILED:
                raise error
            time.sleep(POLL_S)
        if watch.attempts[self._job.master]:
            time.sleep(REDIAL_S)
        self._made_in = watch.round
        return Round(leads=True, has_begun=watch.has_begun)

    def _run_to(self, goal: Phase, progress: Callable[[], None], deadline: float | None) -> None:
        """Takes events until the goal; raises RunFailed when a task failed or time ran out."""
        while self._watch.phase is not goal:
            try:
                phase = self._take(self._events.get(timeout=POLL_S))
            except queue.Empty:
                progress()
                if deadline is not None and time.monotonic() > deadline:
                    raise RunFailed(self._never_came(), []) from None
                phase = self._look_after_the_lost()
            if phase is Phase.FAILED:
                raise self._failed()

    def _take(self, event: Event) -> Phase:
        with self._taking:
            return self._taken(event)

    def _taken(self, event: Event) -> Phase:
        if event.name in ("exit", "lost", "stopped"):
            facts = {**event.facts, "step": self._step_of(event.task)}
            event = Event(event.task, event.name, facts)
        phase = self._watch.take(event)
        if event.name == "serving":
            self._crew.serves(event.task, event.facts)
        elif event.name == "lost":
            self._lost_since = time.monotonic()
        for order in self._watch.orders():
            self._obey(order)
        return phase

    def _obey(self, order: Order) -> None:
        task, facts = order.task, dict(order.facts)
        if order.command == RESTART:
            attempt = self._watch.attempts[task]
            _log.warning("%s %s; it is started again", task, facts["cause"])
            known = self._watch.addresses.get(task)  # none: it died before it could say it
            address = known["address"] if known else Life().address
            self._crew.restart(task, address, attempt, facts["cause"])
            return
        if order.command == "go" and facts["step"] is not None:
            self._report(f"all go on after step {facts['step']}, from its checkpoint", None)
        if order.command == "cluster":
            facts["cluster"] = self._cluster().to_json()
        self._crew.tell(task, order.command, **facts)

    def _look_after_the_lost(self) -> Phase:
        """A client that lost a peer waits for the news of a death; there may be none.

        Nor is there one of a task that is stopped.
        """
        self._crew.tell_of_stopped(self._plan.limits.stopped_s)
        waited = time.monotonic() - self._lost_since
        if self._watch.lost and waited > self._plan.limits.settle_s:
            return self._watch.give_up()
        return self._watch.phase

    def _step_of(self, task: TaskName) -> int:
        """The step that a task was in: its own, or the furthest of those it served."""
        steps = {each: last_step(self._scratch, each) for each in self._tasks}
        return steps[task] or max(steps.values())

    def _failed(self) -> RunFailed:
        """Lets the cause behind a first error arrive, then names it."""
        self._crew.tell_of_stopped(0.0)  # which explains what others say of it
        deadline = time.monotonic() + self._plan.limits.settle_s
        while True:
            left = 0.0 if self._watch.cause_is_certain else deadline - time.monotonic()
            try:
                self._take(self._events.get(timeout=max(0.0, left)))
            except queue.Empty:
                break
        root = self._watch.root_cause
        assert root is not None
        return RunFailed(root, self._crew.tail(root.task))

    def _never_came(self) -> Failure:
        missing = list(self._watch.missing)
        waited = f"{self._plan.limits.connect_s:g} s"
        return Failure(
            missing[0],
            f"did not come up within {waited} (--connect-timeout); "
            f"missing: {', '.join(map(str, missing))}; see its log in the trace folder",
        )

    def _arrivals(self) -> None:
        missing = ", ".join(map(str, self._watch.missing))
        self._report(f"waiting for {missing}", None)

    def _progress(self) -> None:
        if self._watch.phase is Phase.SETTING_UP:
            others = sorted(self._watch.unfinished - self._watch.ready.keys())
            self._report(f"setting up {', '.join(map(str, others))}", None)
            return
        steps = {task: last_step(self._scratch, task) for task in self._watch.clients}
        slowest = min(steps.values(), default=0)
        self._report(f"step {slowest} of {self._plan.steps}", slowest / self._plan.steps)

    def _stop(self) -> None:
        self._crew.stop(self._watch.silent)
        while not self._events.empty():
            self._watch.take(self._events.get())
