"""One task process: serve, learn the cluster, drive its steps if it is a client, stop when told."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracer.launch.control import REMAKE, Control
from tracer.launch.jobs import Client, Job, Stopped, drive
from tracer.launch.plan import PLAN_VARIABLE, SCRATCH_VARIABLE, SECRET_VARIABLE, Life, Plan
from tracer.launch.progress import StepCounter, last_step
from tracer.launch.recording import open_recorder
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.fault import Fault
from tracer.model.step import trace_of_step
from tracer.record.facade import install
from tracer.record.recorder import Recorder
from tracer.runtime.device_finder import Missing
from tracer.runtime.interfaces import StepError
from tracer.runtime.master_step import Lost, never
from tracer.server import LocalServer, Server, ServerConfig
from tracer.training.line import Again, Line, Ready, Round

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
    faults: Sequence[Fault] = (),
    lost: Lost = never,
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
        session_gc_s=plan.limits.session_gc_s,
        caches_responses=plan.caches_responses,
        native_collectives=plan.collectives == "native",
        passes=plan.passes,
        placer=plan.placer,
        progress=progress,
        checkpoints=plan.tolerance.folder,
        faults=tuple(faults),
        lost=lost,
    )
    kind = LocalServer if job.is_local else Server
    return kind(task, job.devices(task), config)


def run_child(task: TaskName, find_job: FindJob) -> None:
    """A task that `tracer run` started; what it needs to know is in its environment."""
    control = Control()
    plan = Plan.from_json(os.environ.pop(PLAN_VARIABLE))
    scratch, secret = Path(os.environ[SCRATCH_VARIABLE]), os.environ.pop(SECRET_VARIABLE)
    life = Life.of_environment(os.environ)
    recorder = open_recorder(scratch, str(task), plan)
    install(recorder)  # before anything of the user's is imported
    job = find_job(plan)
    server = start_server(
        task,
        job,
        plan,
        recorder,
        secret=secret,
        address=life.address,
        sockets=sockets_of(plan, scratch),
        faults=() if life.attempt else plan.tolerance.faults_of(task),
        lost=control.loss,
    )
    try:
        control.tell("serving", address=server.address, devices=list(server.devices))
        told = control.wait("cluster", plan.limits.connect_s)
        cluster = parse_cluster_object(told["cluster"])
        server.join(cluster)
        if task in job.clients:
            line = LauncherLine(control, plan, StepCounter(scratch, task), told.get("round", 0))
            again = Again(life.done, round_of(told)) if "leads" in told else None
            client = Client(task, server.master, cluster, recorder, line.line, again, life.attempt)
            _drive(control, job, client, scratch)
        control.wait_for_stop()
    except Stopped:
        pass
    finally:
        server.close()
        recorder.close()
        control.tell("left", received_bytes=server.received_bytes)


class LauncherLine:
    """A client's line to its launcher. `round` counts how often sessions were made anew."""

    def __init__(self, control: Control, plan: Plan, count: StepCounter, number: int) -> None:
        self._control = control
        self._plan = plan
        self._count = count
        self._round = number
        recover = self._recover if plan.tolerance.restarts else None
        self.line = Line(self._on_step, self._line_up, recover)

    def _on_step(self, step: int) -> None:
        self._control.check()
        self._count(step)

    def _line_up(self, ready: Ready) -> int:
        self._control.tell("ready", round=self._round, **asdict(ready))
        while (told := self._control.wait("go", self._plan.limits.connect_s)) is not None:
            if told["round"] == self._round:
                break
        return ready.step if told["step"] is None else int(told["step"])

    def _recover(self, error: StepError) -> Round:
        self._control.tell("lost", round=self._round, **failed_facts(error))
        try:
            told = self._control.wait(REMAKE, self._plan.limits.connect_s)
        except TimeoutError:
            raise error from None
        self._round = told["round"]
        return round_of(told)


def round_of(told: Mapping[str, Any]) -> Round:
    """What a `remake` says to a client, and a `cluster` to one that was started again."""
    return Round(told["leads"], told["has_begun"], told["round"])


def failed_facts(error: StepError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": error.message,
        "task": error.task,
        "node": error.node,
        "derived": error.derived,
    }


def _drive(control: Control, job: Job, client: Client, scratch: Path) -> None:
    """Runs the client loop and tells how it went; a failed one stays, for its peers' sake."""
    try:
        control.tell("done", **drive(job, client))
    except StepError as error:
        control.tell("failed", step=last_step(scratch, client.task), **failed_facts(error))


def parse_cluster_object(raw: dict[str, dict[str, str]]) -> ClusterSpec:
    """The launcher's own message: jobs → index → address, not a user's text."""
    return ClusterSpec(
        {
            job: {int(index): address for index, address in tasks.items()}
            for job, tasks in raw.items()
        }
    )
