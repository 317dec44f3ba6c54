"""A workload trained by one client on a cluster in this process, and the same by eager torch."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from tests.clusters import RUN_ID, running_cluster
from tests.fakes import SpanData, recorded
from tracer.capture_graph.capture import Evaluation, variables_of
from tracer.capture_graph.randomness import step_seed
from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.graph import Graph
from tracer.model.option import values_of
from tracer.model.step import trace_of_step
from tracer.model.trace_policy import TracePolicy
from tracer.record.recorder import Recorder
from tracer.runtime.cuda import CUDA
from tracer.runtime.gpu import Driver
from tracer.runtime.interfaces import MasterInterface
from tracer.runtime.session import Session
from tracer.server import LocalServer, ServerConfig
from tracer.strategies.distributed_step import DistributedStep, captured_steps, shares_of
from tracer.strategies.distribution import Building
from tracer.strategies.inputs.step_input import StepInput
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Site, Topology
from tracer.training.checkpoint import Checkpoints
from tracer.training.line import NO_LINE, Line
from tracer.training.trainer import (
    Fit,
    Fitted,
    Trainer,
    sessions_of,
    tracing_of,
)
from tracer.workloads.workload import Workload

WORKER = TaskName("worker", 0)


@contextmanager
def task_of(
    strategy: str,
    devices: tuple[str, ...] = ("cpu:0",),
    driver: Driver = CUDA,
    folder: Path | None = None,
) -> Iterator[tuple[MasterInterface, ClusterSpec, Recorder, list[SpanData]]]:
    """The only worker of a strategy's cluster: its master, its recorder, the spans at the end."""
    spec = STRATEGIES[strategy].cluster(Topology(workers=1))
    spans: list[SpanData] = []
    if STRATEGIES[strategy].is_local:
        with recorded() as recording:
            recorder = recording.recorder
            config = ServerConfig(
                recorder, trace_of_step(RUN_ID, "run", 0), driver=driver, checkpoints=folder
            )
            with closing(LocalServer(WORKER, devices, config)) as server:
                yield server.master, spec, recorder, spans
            spans += recording.spans(at_end=True)
        return
    own = {WORKER: devices}
    with running_cluster("near", spec, devices=own, driver=driver, checkpoints=folder) as cluster:
        yield cluster.tasks.masters[WORKER], spec, cluster.tracing.recorder, spans
        assert cluster.recording is not None
        spans += cluster.recording.spans()


class Run:
    """What a training came to: losses, variables by name, spans."""

    def __init__(self, fitted: Fitted, variables: dict[str, Tensor], spans: list[SpanData]) -> None:
        self.fitted = fitted
        self.variables = variables
        self.spans = spans


def trained(
    workload: Workload,
    strategy: str,
    steps: int,
    *,
    seed: int = 0,
    trace: str = "all",
    devices: tuple[str, ...] = ("cpu:0",),
    driver: Driver = CUDA,
    checkpoints: Checkpoints | None = None,
    line_of: Callable[[MasterInterface], Line] = lambda _: NO_LINE,
    options: Mapping[str, str] | None = None,
) -> Run:
    folder = checkpoints.folder if checkpoints else None
    with task_of(strategy, devices, driver, folder) as (master, spec, recorder, spans):
        capture, made = workload.step_capture(seed), STRATEGIES[strategy]
        site = Site(WORKER, spec, devices, values_of(made.options, options or {}))
        inputs = partial(made.inputs, partial(workload.dataset, seed), site)
        built: list[DistributedStep] = []

        def step(
            given: StepInput, evaluation: Evaluation | None, building: Building
        ) -> DistributedStep:
            captured = captured_steps(capture, given, evaluation)
            shares = shares_of([len(each) for each in given.replicas], given.global_batch)
            built.append(made.build(captured, shares, site, building))
            return built[-1]

        trainer = Trainer(
            sessions_of(master),
            step,
            next(inputs()),
            workload.evaluation(),
            tracing_of(recorder, RUN_ID, WORKER, TracePolicy(trace)),
            Fit(
                steps,
                seed=seed,
                checkpoints=checkpoints,
                is_group=made.is_group(site.options),
                prefetch=int((options or {}).get("prefetch", 0)),
                samples=TracePolicy(trace).samples,
            ),
        )
        with closing(trainer):
            fitted = trainer.run(inputs, line_of(master))
        variables = values_in(master, built[0].graph)
    return Run(fitted, variables, spans)


def values_in(master: MasterInterface, graph: Graph) -> dict[str, Tensor]:
    """Of every variable that the graph reads, copies included."""
    names = {node.name for node in variables_of(graph)}
    reads = {
        node.inputs[0].node: f"{node.name}:0"
        for node in graph.nodes
        if node.op == "ReadVariableOp" and node.inputs[0].node in names and not node.control_inputs
    }
    with Session(master, graph) as session:
        values = session.run(list(reads.values()))
    return dict(zip(reads, values, strict=True))


def eager(
    workload: Workload, optimizer: torch.optim.Optimizer, module: torch.nn.Module, steps: int
) -> list[float]:
    """Losses of the same batches and random numbers in plain torch; `module` is trained."""
    batches, losses = workload.batches(0, 0, 1), []
    for number in range(1, steps + 1):
        x, y = next(batches)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(step_seed(0, 0, number))
            optimizer.zero_grad()
            loss = workload.loss(module(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        losses.append(loss.item())
    return losses
