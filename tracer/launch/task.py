"""One task process: serve, learn the cluster, drive its steps if it is a client, stop when told."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tracer.launch.control import Control
from tracer.launch.jobs import Client, Job, Stopped, drive
from tracer.launch.plan import PLAN_VARIABLE, SCRATCH_VARIABLE, SECRET_VARIABLE, Plan
from tracer.launch.progress import StepCounter, last_step
from tracer.launch.recording import open_recorder
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.step import trace_of_step
from tracer.record.facade import install
from tracer.record.recorder import Recorder
from tracer.runtime.device_finder import Missing
from tracer.runtime.interfaces import StepError
from tracer.server import LocalServer, Server, ServerConfig

FindJob = Callable[[Plan], Job]


def sockets_of(plan: Plan, scratch: Path) -> Path | None:
    """The folder in which the tasks of a run find each other's sockets, if they talk by those."""
    if plan.transport != "local":
        return None
    folder = scratch / "sockets"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def start_server(
    task: TaskName,
    job: Job,
    plan: Plan,
    recorder: Recorder,
    *,
    secret: str,
    address: str = "127.0.0.1:0",
    sockets: Path | None = None,
    progress: Callable[[Sequence[Missing]], None] | None = None,
) -> Server | LocalServer:
    config = ServerConfig(
        recorder,
        trace_of_step(plan.run_id, "run", 0),
        secret=secret,
        address=address,
        sockets=sockets,
        allow_proxy=plan.allow_proxy,
        connect_s=plan.limits.connect_s,
        step_s=plan.limits.step_s,
        passes=plan.passes,
        progress=progress,
    )
    kind = LocalServer if job.is_local else Server
    return kind(task, job.devices(task), config)


def run_child(task: TaskName, find_job: FindJob) -> None:
    """A task that `tracer run` started; what it needs to know is in its environment."""
    control = Control()
    plan = Plan.from_json(os.environ.pop(PLAN_VARIABLE))
    scratch, secret = Path(os.environ[SCRATCH_VARIABLE]), os.environ.pop(SECRET_VARIABLE)
    recorder = open_recorder(scratch, str(task), plan)
    install(recorder)  # before anything of the user's is imported
    job = find_job(plan)
    sockets = sockets_of(plan, scratch)
    server = start_server(task, job, plan, recorder, secret=secret, sockets=sockets)
    try:
        control.tell("serving", address=server.address, devices=list(server.devices))
        told = control.wait("cluster", plan.limits.connect_s)
        cluster = parse_cluster_object(told["cluster"])
        server.join(cluster)
        if task in job.clients:
            on_step = _step_counter(control, scratch, task)
            line_up = _start_line(control, plan.limits.connect_s)
            client = Client(task, server.master, cluster, recorder, on_step, line_up)
            _drive(control, job, client, scratch)
        control.wait_for_stop()
    except Stopped:
        pass
    finally:
        server.close()
        recorder.close()
        control.tell("left", received_bytes=server.received_bytes)


def _step_counter(control: Control, scratch: Path, task: TaskName) -> Callable[[int], None]:
    counter = StepCounter(scratch, task)

    def on_step(step: int) -> None:
        control.check()
        counter(step)

    return on_step


def _start_line(control: Control, timeout_s: float) -> Callable[[], None]:
    def line_up() -> None:
        control.tell("ready")
        control.wait("go", timeout_s)

    return line_up


def _drive(control: Control, job: Job, client: Client, scratch: Path) -> None:
    """Runs the client loop and tells how it went; a failed one stays, for its peers' sake."""
    try:
        control.tell("done", **drive(job, client))
    except StepError as error:
        control.tell(
            "failed",
            code=error.code,
            message=error.message,
            task=error.task,
            node=error.node,
            derived=error.derived,
            step=last_step(scratch, client.task),
        )


def parse_cluster_object(raw: dict[str, dict[str, str]]) -> ClusterSpec:
    """The launcher's own message: jobs → index → address, not a user's text."""
    return ClusterSpec(
        {
            job: {int(index): address for index, address in tasks.items()}
            for job, tasks in raw.items()
        }
    )
