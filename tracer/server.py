"""One task of a cluster: devices, worker and master on one gRPC port (TF `server_lib.py`).

Any server may be the master of a session, namely of those whose client dials it or lives in it.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracer.model.cluster import LOCALHOST, ClusterSpec, TaskName
from tracer.model.fault import Fault
from tracer.model.step import SpanContext
from tracer.passes.placer import BY_RULE, Placer
from tracer.record.recorder import Recorder
from tracer.rpc.server import serve
from tracer.rpc.transport import Transport
from tracer.rpc.worker_stub import RemoteWorker
from tracer.runtime.collectives import Collectives
from tracer.runtime.cuda import CUDA
from tracer.runtime.device_finder import Progress
from tracer.runtime.devices import make_devices
from tracer.runtime.faults import make_worker
from tracer.runtime.gpu import Driver
from tracer.runtime.interfaces import WorkerInterface, WorkerStatus
from tracer.runtime.master import Master
from tracer.runtime.master_step import Lost, never
from tracer.runtime.resource_manager import TaskResources
from tracer.runtime.worker_cache import WorkerCache
from tracer.runtime.worker_env import WorkerEnv


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """`run` is the context of what happens outside steps; `_s` are seconds.

    With `sockets`, a folder, the task talks to others by the unix sockets there. `checkpoints` is
    the only folder in which tensors are saved. `faults` happen to this task. Its master closes the
    sessions of a client elsewhere that calls none for `session_gc_s`; 0 keeps them.
    `caches_responses` is of all tasks of a cluster: a tensor that was sent is kept until its
    receiver has it, who may ask once more. `native_collectives`: torch.distributed does all.
    `lost` says why no step of its master can end well, if so.
    """

    recorder: Recorder
    run: SpanContext
    secret: str = ""
    address: str = "127.0.0.1:0"
    sockets: Path | None = None
    allow_proxy: bool = False
    connect_s: float = 60.0
    step_s: float = 60.0
    session_gc_s: float = 0.0
    caches_responses: bool = False
    native_collectives: bool = False
    passes: tuple[str, ...] = ()
    placer: Placer = BY_RULE
    progress: Progress | None = None
    driver: Driver = CUDA
    checkpoints: Path | None = None
    faults: tuple[Fault, ...] = ()
    lost: Lost = never


class LocalServer:
    """A task without a cluster (TF's DirectSession): its devices are `/job:localhost`, no port.

    `task` is how rows, errors and files name it.
    """

    address = ""
    received_bytes = 0

    def __init__(self, task: TaskName, devices: Sequence[str], config: ServerConfig) -> None:
        self.task = task
        local = TaskName(LOCALHOST, 0)
        with config.recorder.span("server.start", config.run):
            env = WorkerEnv(
                local,
                make_devices(local, devices, config.recorder, config.driver),
                recorder=config.recorder,
                resources=TaskResources(config.checkpoints),
                label=str(task),
                collectives=Collectives(is_native=config.native_collectives),
            )
            self._worker = make_worker(env, WorkerCache(), os.getpid(), config.faults)
            self.master = Master(
                self._worker,
                ClusterSpec.of_counts(**{LOCALHOST: 1}),
                step_timeout_s=config.step_s,
                session_gc_s=config.session_gc_s,
                lost=config.lost,
                passes=config.passes,
                placer=config.placer,
            )
            self.devices = tuple(str(device.name) for device in env.devices)

    def join(self, cluster: ClusterSpec) -> None:
        """Alone, whatever the cluster."""

    def finish(self) -> None:
        """There is nobody to tell."""

    def status_of(self, task: TaskName, address: str) -> Callable[[], WorkerStatus]:
        raise AssertionError(f"{self.task} is alone; it cannot ask {task} at {address}")

    def close(self) -> None:
        self.master.close()
        self._worker.close()


class Server:
    """Serves from the moment it is made until `close`. Raises AddressError if it cannot bind."""

    def __init__(self, task: TaskName, devices: Sequence[str], config: ServerConfig) -> None:
        self.task = task
        with config.recorder.span("server.start", config.run) as span:
            env = WorkerEnv(
                task,
                make_devices(task, devices, config.recorder, config.driver),
                recorder=config.recorder,
                resources=TaskResources(config.checkpoints),
                caches_responses=config.caches_responses,
                collectives=Collectives(is_native=config.native_collectives),
            )
            self._transport = Transport(
                str(task),
                secret=config.secret,
                recorder=config.recorder,
                context=config.run,
                allow_proxy=config.allow_proxy,
                sockets=config.sockets,
                peers_cache_responses=config.caches_responses,
            )
            cache = WorkerCache(self._stub, config.recorder)
            self._worker = make_worker(env, cache, os.getpid(), config.faults)
            self.master = Master(
                self._worker,
                ClusterSpec({}),
                connect_timeout_s=config.connect_s,
                step_timeout_s=config.step_s,
                session_gc_s=config.session_gc_s,
                lost=config.lost,
                progress=config.progress,
                passes=config.passes,
                placer=config.placer,
            )
            self._server = serve(self._transport, self._worker, self.master, config.address)
            self._server.let_frames_fail(config.faults)
            self.devices = tuple(str(device.name) for device in env.devices)
            host, _, port = self.address.rpartition(":")
            env.collectives.host = host
            span.set("server.address", host)
            span.set("server.port", int(port))

    @property
    def address(self) -> str:
        """Host and chosen port."""
        return self._server.address

    @property
    def received_bytes(self) -> int:
        """Of tensors from other tasks, as the transport counted them."""
        return self._transport.received_bytes

    def join(self, cluster: ClusterSpec) -> None:
        """Learns where its peers are; sessions may be made from here on."""
        self.master.join(cluster)

    def finish(self) -> None:
        """From here on this task's status says that its client is done."""
        self._worker.finish()

    def status_of(self, task: TaskName, address: str) -> Callable[[], WorkerStatus]:
        """How another task is asked for its status; that raises StepError."""
        return self._stub(task, address).get_status

    def close(self) -> None:
        self.master.close()
        self._server.stop()
        self._worker.close()
        self._transport.close()

    def _stub(self, task: TaskName, address: str) -> WorkerInterface:
        return RemoteWorker(self._transport, task, address)
