"""One run, from its first process to its last: start, introduce, watch, stop, account.

The launcher is the client's side of a run; it owns no device. Every task is a direct child process,
so that a death is seen at once (`exit` event) and nothing outlives the run.
"""

import logging
import queue
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracer.launch.account import LAUNCHER, Account
from tracer.launch.child import Child, Event
from tracer.launch.environment import say_if_proxy_is_ignored, task_environment
from tracer.launch.jobs import Client, Job, drive
from tracer.launch.plan import Plan
from tracer.launch.progress import StepCounter, last_step
from tracer.launch.recording import spans_told, warnings_of
from tracer.launch.signals import undisturbed
from tracer.launch.task import sockets_of
from tracer.launch.watch import Failure, Phase, RunFailed, Watch, failure_from
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.step import trace_of_step
from tracer.record.home import make_scratch
from tracer.record.recorder import Recorder
from tracer.rpc.master_stub import RemoteMaster
from tracer.runtime.interfaces import StepError

_log = logging.getLogger(__name__)

POLL_S = 0.1  #: how often the progress line changes
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
        self._watch = Watch(self._tasks, job.clients)
        self._report = report
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._children: dict[TaskName, Child] = {}
        self._secret = secrets.token_hex(16)

    def run(self) -> Outcome:
        """Runs to the end.

        Raises RunFailed with the root cause, KeyboardInterrupt on Ctrl-C; either way every process
        has ended, and the trace holds what was recorded.
        """
        with (
            scratch_folder() as scratch,
            Account(self._plan, self._job.cluster, scratch, report=self._report) as account,
        ):
            try:
                self._start(scratch, account)
                cluster = self._introduce(scratch, account)
                if not self._job.clients:
                    self._drive(cluster, account.recorder, scratch)
                else:
                    self._start_steps(scratch)
                    self._run_to(Phase.FINISHED, self._progress(scratch), scratch, None)
            finally:
                with undisturbed():
                    self._stop(account)
        num_bytes = sum(self._watch.received_bytes.values())
        return outcome_of_run(account, self._watch.results, num_bytes)

    def _start(self, scratch: Path, account: Account) -> None:
        say_if_proxy_is_ignored(self._plan)
        environment = task_environment(self._plan, str(scratch), self._secret, len(self._tasks))
        for task in self._tasks:
            arguments = ["--job", task.job, "--index", str(task.index)]
            child = Child(task, arguments, environment, account.log_path(task), self._events)
            self._children[task] = child
        account.started({str(task): child.pid for task, child in self._children.items()})

    def _introduce(self, scratch: Path, account: Account) -> ClusterSpec:
        """Waits for every task's address, then tells all of them the whole cluster."""
        deadline = time.monotonic() + self._plan.limits.connect_s
        self._run_to(Phase.SETTING_UP, self._arrivals, scratch, deadline)
        cluster = self._job.cluster
        for task, facts in self._watch.addresses.items():
            cluster = cluster.with_address(task, facts["address"])
            account.serving(task, facts["address"], facts["devices"])
        for child in self._children.values():
            child.command("cluster", cluster=cluster.to_json())
        return cluster

    def _start_steps(self, scratch: Path) -> None:
        """Lets every client begin when all are ready; each has a limit of its own until then."""
        self._run_to(Phase.RUNNING, self._preparations, scratch, None)
        for task in self._job.clients:
            self._children[task].command("go")

    def _drive(self, cluster: ClusterSpec, recorder: Recorder, scratch: Path) -> None:
        """The launcher is the client: it dials the job's master."""
        task = self._job.master
        master = RemoteMaster(
            cluster.address(task),
            client=LAUNCHER,
            secret=self._secret,
            recorder=recorder,
            context=trace_of_step(self._plan.run_id, "run", 0),
            allow_proxy=self._plan.allow_proxy,
            step_timeout_s=self._plan.limits.step_s + GRACE_S,
            sockets=sockets_of(self._plan, scratch),
        )
        count, show = StepCounter(scratch, task), throttled(self._report, self._plan.steps)

        def counter(step: int) -> None:
            count(step)
            show(step)

        try:
            found = drive(self._job, Client(task, master, cluster, recorder, counter))
        except StepError as error:
            self._watch.failures.append(failure_from(task, error, last_step(scratch, task)))
            raise self._failed(scratch) from None
        finally:
            master.close()
        self._watch.results[task] = found

    def _run_to(
        self, goal: Phase, progress: Callable[[], None], scratch: Path, deadline: float | None
    ) -> None:
        """Takes events until the goal; raises RunFailed when a task failed or time ran out."""
        while self._watch.phase is not goal:
            try:
                event = self._events.get(timeout=POLL_S)
            except queue.Empty:
                progress()
                if deadline is not None and time.monotonic() > deadline:
                    raise RunFailed(self._never_came(), []) from None
                continue
            if self._take(event, scratch) is Phase.FAILED:
                raise self._failed(scratch)

    def _take(self, event: Event, scratch: Path) -> Phase:
        if event.name == "exit":
            facts = {**event.facts, "step": self._step_of(event.task, scratch)}
            event = Event(event.task, event.name, facts)
        return self._watch.take(event)

    def _step_of(self, task: TaskName, scratch: Path) -> int:
        """The step that a task was in: its own, or the furthest of those it served."""
        steps = {each: last_step(scratch, each) for each in self._tasks}
        return steps[task] or max(steps.values())

    def _failed(self, scratch: Path) -> RunFailed:
        """Lets the cause behind a first error arrive, then names it."""
        deadline = time.monotonic() + self._plan.limits.settle_s
        while not self._watch.cause_is_certain and (left := deadline - time.monotonic()) > 0:
            try:
                self._take(self._events.get(timeout=left), scratch)
            except queue.Empty:
                break
        root = self._watch.root_cause
        assert root is not None
        child = self._children.get(root.task)
        return RunFailed(root, child.tail() if child else [])

    def _never_came(self) -> Failure:
        missing = list(self._watch.missing)
        waited = f"{self._plan.limits.connect_s:g} s"
        return Failure(
            missing[0],
            f"did not come up within {waited} (--connect-timeout); "
            f"missing: {', '.join(map(str, missing))}; see its log in the trace folder",
        )

    def _preparations(self) -> None:
        others = sorted(self._job.clients - self._watch.ready)
        self._report(f"setting up {', '.join(map(str, others))}", None)

    def _arrivals(self) -> None:
        missing = ", ".join(map(str, self._watch.missing))
        self._report(f"waiting for {missing}", None)

    def _progress(self, scratch: Path) -> Callable[[], None]:
        clients = sorted(self._watch.clients)

        def show() -> None:
            steps = {task: last_step(scratch, task) for task in clients}
            slowest = min(steps.values(), default=0)
            share = slowest / self._plan.steps if self._plan.steps else 1.0
            self._report(f"step {slowest} of {self._plan.steps}", share)

        return show

    def _stop(self, account: Account) -> None:
        """Tells every task to stop, all before waiting for one; kills what stays."""
        for child in self._children.values():
            child.command("stop")
        deadline = time.monotonic() + self._plan.limits.shutdown_s
        for child in self._children.values():
            child.end(max(0.0, deadline - time.monotonic()))
            account.ended(child.task, child.process.returncode, is_lost=child.was_given_up)
        while not self._events.empty():
            self._watch.take(self._events.get())
