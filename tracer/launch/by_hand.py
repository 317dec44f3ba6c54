"""`tracer task` as a person starts it: one task of a cluster whose addresses are known beforehand.

It starts a collector of its own and writes its own trace folder. With a workload it also runs this
task's client loop; without, or when that is done, it serves until Ctrl-C or SIGTERM: peers may
still need its variables.
"""

import signal
import threading
from collections.abc import Callable, Sequence

from tracer.launch.account import Account
from tracer.launch.jobs import Client, Job
from tracer.launch.launcher import Outcome, Report, failure_from, scratch_folder
from tracer.launch.plan import Plan
from tracer.launch.progress import StepCounter, last_step
from tracer.launch.task import open_recorder, start_server
from tracer.launch.watch import RunFailed
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.runtime.device_finder import Missing
from tracer.runtime.interfaces import StepError


def run_by_hand(
    task: TaskName, plan: Plan, job: Job, cluster: ClusterSpec, secret: str, report: Report
) -> Outcome:
    """Raises RunFailed, or AddressError if the task's port cannot be bound."""
    results = {}
    with scratch_folder() as scratch, Account(plan, cluster, scratch, name=str(task)) as account:
        recorder = open_recorder(scratch, str(task), plan)
        server = start_server(
            task,
            job,
            plan,
            recorder,
            secret=secret,
            address=cluster.address(task),
            progress=_still_missing(report),
        )
        try:
            server.join(cluster.with_address(task, server.address))
            account.serving(task, server.address, server.devices)
            report(f"{task} serves at {server.address}", None)
            if plan.workload and task in job.clients:
                counter = StepCounter(scratch, task)
                client = Client(task, server.master, cluster, recorder, counter)
                try:
                    results[task] = job.run_client(client)
                except StepError as error:
                    raise RunFailed(
                        failure_from(task, error, last_step(scratch, task)), []
                    ) from None
            else:
                wait_for_signal()
        finally:
            server.stop()
            recorder.close()
    return Outcome(results, account.recorded, account.written, plan.out)


def _still_missing(report: Report) -> Callable[[Sequence[Missing]], None]:
    def show(missing: Sequence[Missing]) -> None:
        report("waiting for " + "; ".join(map(str, missing)), None)

    return show


def wait_for_signal() -> None:
    """Returns on SIGTERM; Ctrl-C raises KeyboardInterrupt as ever."""
    asked = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        asked.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
