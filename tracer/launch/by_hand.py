"""`tracer task` as a person or torchrun starts it: one task of a cluster, without a launcher.

It starts a collector of its own and writes its own trace folder. With a workload it also runs this
task's client loop, and goes when every client is done; without, it serves until it is told to go.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracer.launch.account import Account
from tracer.launch.environment import say_if_proxy_is_ignored
from tracer.launch.failure import RunFailed, failure_from
from tracer.launch.farewell import wait_for_others
from tracer.launch.jobs import Client, Job, drive
from tracer.launch.launcher import Outcome, Report, outcome_of_run, scratch_folder, throttled
from tracer.launch.place import NoPlace, Place
from tracer.launch.plan import Plan
from tracer.launch.signals import told_to_go
from tracer.launch.task import start_server
from tracer.launch.tolerance import check_tolerance
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.record.facade import install
from tracer.rpc.local_socket import check_local, user_folder
from tracer.runtime.device_finder import Missing
from tracer.runtime.interfaces import StepError
from tracer.server import LocalServer, Server
from tracer.training.line import Line


def run_by_hand(place: Place, plan: Plan, job: Job, secret: str, report: Report) -> Outcome:
    """Raises RunFailed, NoPlace, or AddressError if its port or socket cannot be had."""
    task, cluster = place.task, place.cluster
    _check_tasks(plan, job, cluster)
    if task in job.clients:
        check_tolerance(plan.tolerance, cluster, plan.steps)
    results: dict[TaskName, Mapping[str, Any]] = {}
    say_if_proxy_is_ignored(plan)
    sockets = _sockets(plan, cluster)
    with (
        scratch_folder() as scratch,
        Account(plan, cluster, scratch, str(task), report) as account,
    ):
        server = start_server(
            task,
            job,
            plan,
            account.recorder,
            secret=secret,
            address=cluster.address(task),
            sockets=sockets,
            progress=_still_missing(report),
        )
        with closing(server), ExitStack() as stack:
            stack.callback(install(account.recorder))
            account.serving(task, server.address, server.devices)
            report(f"{task} serves at {server.address or 'no port'}", None)
            cluster = place.introduce(server.address)
            server.join(cluster)
            if task in job.clients:
                on_step = throttled(report, plan.steps)
                client = Client(task, server.master, cluster, account.recorder, Line(on_step))
                results[task] = _run_client(job, client)
            _serve(task, job, cluster, server, report)
        num_bytes = server.received_bytes
    return outcome_of_run(account, results, num_bytes)


def _check_tasks(plan: Plan, job: Job, cluster: ClusterSpec) -> None:
    """Raises NoPlace where the strategy needs tasks that are not there."""
    there = set(cluster.tasks())
    if missing := [task for task in job.cluster.tasks() if task not in there]:
        raise NoPlace(
            f"{plan.strategy} needs {', '.join(map(str, missing))}, and the cluster has "
            f"{', '.join(map(str, sorted(there)))}: add what is missing, or name another strategy"
        )


def _sockets(plan: Plan, cluster: ClusterSpec) -> Path | None:
    """Raises AddressError: a task of the cluster is not on this host, or so it seems."""
    if plan.transport != "local":
        return None
    for task in cluster.tasks():
        check_local(cluster.address(task))
    return user_folder()


def _run_client(job: Job, client: Client) -> Mapping[str, Any]:
    steps = 0

    def on_step(step: int) -> None:
        nonlocal steps
        steps = step
        client.line.on_step(step)

    try:
        return drive(job, replace(client, line=Line(on_step)))
    except StepError as error:
        raise RunFailed(failure_from(client.task, error, steps), []) from None


def _serve(
    task: TaskName, job: Job, cluster: ClusterSpec, server: Server | LocalServer, report: Report
) -> None:
    others = sorted(job.clients - {task})
    with told_to_go() as told:
        if not job.clients:
            told.wait()
            return
        server.finish()
        if others:
            report(f"{task} is done; it serves {', '.join(map(str, others))} until they are", None)
        asks = {other: server.status_of(other, cluster.address(other)) for other in others}
        wait_for_others(asks, told, met=task in job.clients)


def _still_missing(report: Report) -> Callable[[Sequence[Missing]], None]:
    def show(missing: Sequence[Missing]) -> None:
        report("waiting for " + "; ".join(map(str, missing)), None)

    return show
