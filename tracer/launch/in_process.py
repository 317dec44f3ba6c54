"""A run in one process: the same tasks, sessions and records, joined by plain calls, not gRPC.

A task belongs to the record, not to the process: each has a recorder of its own here too.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tracer.launch.account import Account
from tracer.launch.failure import Failure, RunFailed, failure_from
from tracer.launch.jobs import Client, Job, Stopped, drive
from tracer.launch.launcher import POLL_S, Outcome, Report, outcome_of_run, scratch_folder
from tracer.launch.plan import Plan
from tracer.launch.progress import StepCounter, last_step
from tracer.launch.recording import open_recorder
from tracer.launch.task import start_server
from tracer.model.cluster import TaskName
from tracer.record.facade import install
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.runtime.master_step import Lost
from tracer.runtime.near_cluster import NearCluster
from tracer.training.line import Line, Ready


class _Together:
    """What the clients of one process share: a common start, and the word to stop."""

    def __init__(self, num_clients: int, timeout_s: float) -> None:
        self._is_stopping = threading.Event()
        self._start = threading.Barrier(num_clients)
        self._timeout_s = timeout_s

    def line_up(self, ready: Ready) -> int:
        """Returns when every client is ready. Raises Stopped, or StepError if one never is."""
        try:
            self._start.wait(self._timeout_s)
        except threading.BrokenBarrierError:
            self.check()
            raise StepError(
                "DEADLINE_EXCEEDED",
                f"not every client was ready within {self._timeout_s:g} s (--connect-timeout)",
            ) from None
        return ready.step

    def check(self) -> None:
        if self._is_stopping.is_set():
            raise Stopped

    def loss(self) -> StepError | None:
        """Of one of them, for whom the steps of others may wait."""
        if not self._is_stopping.is_set():
            return None
        return StepError("CANCELLED", "another client of this run has failed", derived=True)

    def stop(self) -> None:
        self._is_stopping.set()
        self._start.abort()


def run_in_process(plan: Plan, job: Job, report: Report) -> Outcome:
    """Runs to the end. Raises RunFailed with the root cause, KeyboardInterrupt on Ctrl-C."""
    with (
        scratch_folder() as scratch,
        Account(plan, job.cluster, scratch, report=report) as account,
        ExitStack() as stack,
    ):
        recorders = {
            task: stack.enter_context(closing(open_recorder(scratch, str(task), plan)))
            for task in job.cluster.tasks()
        }
        stack.callback(install(account.recorder, *recorders.values()))
        driving = job.clients or {job.master}
        together = _Together(len(driving), plan.limits.connect_s)
        masters = _masters(plan, job, recorders, together.loss, stack)
        clients = {
            task: Client(
                task,
                masters[task],
                job.cluster,
                recorder,
                Line(_counter(scratch, task, together), together.line_up),
            )
            for task, recorder in recorders.items()
            if task in driving
        }
        results = _drive(job, clients, together, scratch, _progress(plan, clients, scratch, report))
    return outcome_of_run(account, results)


def _masters(
    plan: Plan, job: Job, recorders: Mapping[TaskName, Recorder], lost: Lost, stack: ExitStack
) -> Mapping[TaskName, MasterInterface]:
    if job.is_local:
        ((task, recorder),) = recorders.items()
        server = start_server(task, job, plan, recorder, secret="", lost=lost)
        stack.callback(server.close)
        return {task: server.master}
    near = NearCluster(
        job.cluster,
        devices={task: job.devices(task) for task in recorders},
        recorder_of=lambda task: recorders[task],
        step_timeout_s=plan.limits.step_s,
        session_gc_s=plan.limits.session_gc_s,
        caches_responses=plan.caches_responses,
        native_collectives=plan.collectives == "native",
        passes=plan.passes,
        placer=plan.placer,
        checkpoints=plan.tolerance.folder,
        lost=lost,
    )
    return stack.enter_context(near).masters


def _counter(scratch: Path, task: TaskName, together: _Together) -> Callable[[int], None]:
    count = StepCounter(scratch, task)

    def on_step(step: int) -> None:
        together.check()
        count(step)

    return on_step


def _progress(
    plan: Plan, clients: Mapping[TaskName, Client], scratch: Path, report: Report
) -> Callable[[], None]:
    def show() -> None:
        slowest = min(last_step(scratch, task) for task in clients)
        report(f"step {slowest} of {plan.steps}", slowest / plan.steps)

    return show


def _is_over(running: Collection[Future[Any]]) -> bool:
    """Whether all have ended or one has failed, a moment later."""
    ended, others = wait(running, POLL_S, FIRST_EXCEPTION)
    return not others or any(future.exception() for future in ended)


def _drive(
    job: Job,
    clients: Mapping[TaskName, Client],
    together: _Together,
    scratch: Path,
    progress: Callable[[], None],
) -> Mapping[TaskName, Mapping[str, Any]]:
    """All clients at once, a thread each; if one fails, the others stop in the middle of a step."""
    results: dict[TaskName, Mapping[str, Any]] = {}
    failures: list[Failure] = []
    with ThreadPoolExecutor(len(clients), thread_name_prefix="client") as pool:
        running = {task: pool.submit(drive, job, client) for task, client in clients.items()}
        try:
            while not _is_over(running.values()):
                progress()
        finally:
            together.stop()
    for task, future in running.items():
        try:
            results[task] = future.result()
        except StepError as error:
            failures.append(failure_from(task, error, last_step(scratch, task)))
        except Stopped:
            continue
    if failures:
        raise RunFailed(min(failures, key=lambda failure: failure.rank), [])
    return results
