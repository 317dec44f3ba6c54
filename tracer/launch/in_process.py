"""A run in one process: the same tasks, sessions and records, joined by plain calls, not gRPC.

A task belongs to the record, not to the process: each has a recorder of its own here too.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from tracer.launch.account import Account
from tracer.launch.jobs import Client, Job
from tracer.launch.launcher import Outcome, Report, failure_from, scratch_folder
from tracer.launch.plan import Plan
from tracer.launch.progress import StepCounter, last_step
from tracer.launch.task import open_recorder, start_server
from tracer.launch.watch import Failure, RunFailed
from tracer.model.cluster import TaskName
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import MasterInterface, StepError
from tracer.runtime.near_cluster import NearCluster

POLL_S = 0.1  #: how often the progress line changes


def run_in_process(plan: Plan, job: Job, report: Report) -> Outcome:
    """Runs to the end. Raises RunFailed with the root cause, KeyboardInterrupt on Ctrl-C."""
    with (
        scratch_folder() as scratch,
        Account(plan, job.cluster, scratch) as account,
        ExitStack() as stack,
    ):
        recorders = {
            task: stack.enter_context(closing(open_recorder(scratch, str(task), plan)))
            for task in job.cluster.tasks()
        }
        masters = _masters(plan, job, recorders, stack)
        clients = {
            task: Client(task, masters[task], job.cluster, recorder, StepCounter(scratch, task))
            for task, recorder in recorders.items()
            if task in (job.clients or {job.master})
        }
        results = _drive(job, clients, _progress(plan, clients, scratch, report))
    return Outcome(results, account.recorded, account.written, plan.out)


def _masters(
    plan: Plan, job: Job, recorders: Mapping[TaskName, Recorder], stack: ExitStack
) -> Mapping[TaskName, MasterInterface]:
    if job.is_local:
        ((task, recorder),) = recorders.items()
        server = start_server(task, job, plan, recorder, secret="")
        stack.callback(server.stop)
        return {task: server.master}
    near = NearCluster(
        job.cluster,
        devices={task: job.devices(task) for task in recorders},
        recorder_of=lambda task: recorders[task],
        step_timeout_s=plan.limits.step_s,
    )
    return stack.enter_context(near).masters


def _progress(
    plan: Plan, clients: Mapping[TaskName, Client], scratch: Path, report: Report
) -> Callable[[], None]:
    def show() -> None:
        slowest = min(last_step(scratch, task) for task in clients)
        report(f"step {slowest} of {plan.steps}", slowest / plan.steps)

    return show


def _drive(
    job: Job, clients: Mapping[TaskName, Client], progress: Callable[[], None]
) -> Mapping[TaskName, Mapping[str, Any]]:
    """All clients at once, a thread each; raises the root cause when all have ended."""
    results: dict[TaskName, Mapping[str, Any]] = {}
    failures: list[Failure] = []
    with ThreadPoolExecutor(len(clients), thread_name_prefix="client") as pool:
        running = {task: pool.submit(job.run_client, client) for task, client in clients.items()}
        while wait(running.values(), POLL_S).not_done:
            progress()
    for task, future in running.items():
        try:
            results[task] = future.result()
        except StepError as error:
            failures.append(failure_from(task, error, 0))
    if failures:
        raise RunFailed(min(failures, key=lambda failure: failure.rank), [])
    return results
