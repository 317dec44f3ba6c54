"""What a run is: the request of `tracer run`, checked, and the form in which its tasks get it."""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from tracer.launch.recording import Recording
from tracer.launch.tolerance import Tolerance
from tracer.model.cluster import ClusterSpec
from tracer.model.trace_policy import TracePolicy
from tracer.passes.cost_model import Costs
from tracer.passes.placer import Placer
from tracer.strategies.strategy import Topology

COLLECTIVES = ("visible", "native")  #: hop by hop by us; by torch.distributed
TRANSPORTS = ("grpc", "local")  #: gRPC streams; unix sockets beside shared memory

PLAN_VARIABLE = "VIZDIST_PLAN"  #: environment: the plan as JSON
SECRET_VARIABLE = "VIZDIST_CLUSTER_SECRET"
RUN_ID_VARIABLE = "VIZDIST_RUN_ID"  #: of tasks that are started by hand
SCRATCH_VARIABLE = "VIZDIST_SCRATCH"  #: folder of rings and step counters
LIFE_VARIABLE = "VIZDIST_LIFE"  #: a Life as JSON, of a task that was started again


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of a run in one table; `_s` are seconds."""

    connect_s: float = 60.0  #: until every task of the cluster answered
    step_s: float = 60.0  #: one step
    shutdown_s: float = 3.0  #: from "stop" to SIGKILL
    drain_s: float = 30.0  #: of the collector without a sign of progress, once all tasks ended
    settle_s: float = 1.0  #: after a first error, for its cause to become known
    stopped_s: float = 5.0  #: that a task may be stopped by a signal, as it may answer no ping
    session_gc_s: float = 0.0  #: without a call of a client until its sessions are closed; 0: never


@dataclass(frozen=True, slots=True)
class Life:
    """What a task that died is told when it is started again.

    It serves at its old address. `done`: the steps that its client had ended.
    """

    address: str = "127.0.0.1:0"
    attempt: int = 0
    done: int = 0

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self:
        return cls(**json.loads(environment.get(LIFE_VARIABLE, "{}")))


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. `workload` is a name of `tracer list`; empty when a graph file is run.

    A graph has no `strategy`; `steps` 0: as many as it asks for. `out` is the trace folder; empty:
    one of a name of its own. `transport` is one of TRANSPORTS, `collectives` one of COLLECTIVES.
    """

    run_id: str
    out: str = ""
    workload: str = ""
    graph_file: str = ""
    strategy: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    topology: Topology = field(default_factory=Topology)
    steps: int = 100
    seed: int = 0
    trace: TracePolicy = field(default_factory=TracePolicy)
    limits: Limits = field(default_factory=Limits)
    recording: Recording = field(default_factory=Recording)
    passes: tuple[str, ...] = ()
    placer: Placer = field(default_factory=Placer)
    in_process: bool = False
    transport: str = "grpc"
    collectives: str = "visible"
    allow_proxy: bool = False
    caches_responses: bool = False
    tolerance: Tolerance = field(default_factory=Tolerance)

    @property
    def title(self) -> str:
        return self.workload or Path(self.graph_file).stem

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        topology = dict(raw.pop("topology"))
        for name in ("devices", "ps_devices"):
            topology[name] = tuple(topology[name] or ()) or None
        placer = raw.pop("placer")
        costs = placer["costs"]
        return cls(
            topology=Topology(**topology),
            trace=TracePolicy(**raw.pop("trace")),
            limits=Limits(**raw.pop("limits")),
            recording=Recording(**raw.pop("recording")),
            tolerance=Tolerance(**raw.pop("tolerance")),
            passes=tuple(raw.pop("passes")),
            placer=Placer(placer["name"], costs and Costs(**costs), placer["soft"]),
            **raw,
        )


def new_run_id() -> str:
    """Sortable by time, unique by chance: `20260131-142530-9f3a1c`."""
    return time.strftime("%Y%m%d-%H%M%S-") + secrets.token_hex(3)


def run_id_of(cluster: ClusterSpec) -> str:
    """The run of tasks that are started one by one: all of them come to the same without talking.

    Who runs one cluster description several times tells the runs apart by RUN_ID_VARIABLE, set to
    the same word for every task.
    """
    if told := os.environ.get(RUN_ID_VARIABLE):
        return told
    text = json.dumps(cluster.to_json(), sort_keys=True)
    return f"cluster-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
