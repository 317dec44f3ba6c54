"""The flags of `tracer run`, as a table, and the plan that they make."""

import argparse
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracer.launch.costs import read_costs
from tracer.launch.devices import AUTO, devices_from
from tracer.launch.place import Place
from tracer.launch.plan import COLLECTIVES, TRANSPORTS, Limits, Plan, new_run_id
from tracer.launch.recording import RECORDING_FLAGS, recording_from
from tracer.launch.tolerance import TOLERANCE_FLAGS, tolerance_from
from tracer.model.json_text import read_text
from tracer.model.option import Declared, OptionError, options_in_force
from tracer.model.refusal import Refusal
from tracer.model.trace_policy import TracePolicy
from tracer.passes.optimize import OPTIMIZATIONS, named_passes
from tracer.passes.placer import PLACERS, Placer
from tracer.record.otel_settings import sampler_from
from tracer.runtime.cuda import gpus
from tracer.strategies.registry import STRATEGIES, find_strategy
from tracer.strategies.strategy import StrategyError, Topology

LIMITS = Limits()
_OF_MODULES = ("--strategy", "--workers", "--ps", "--devices", "--ps-devices")
_OF_CLIENTS = ("--strategy", "--option", "--steps", "--seed", "--trace", "--checkpoint-every")
_OF_RUNS = ("--workers", "--ps", "--in-process", "--json", "--restart", "--fault")

#: flag → argparse settings, in the order of `--help`
RUN_FLAGS: Mapping[str, Mapping[str, Any]] = {
    "--strategy": {
        "metavar": "S[,…]",
        "help": f"how to spread a module: {', '.join(STRATEGIES)}; of several, one after the other",
    },
    "--workers": {"type": int, "metavar": "N", "help": "worker tasks (default: the strategy's)"},
    "--ps": {"type": int, "metavar": "N", "help": "parameter server tasks"},
    "--devices": {
        "metavar": "D",
        "default": "auto",
        "help": "devices of each worker: auto (every GPU, else CPU), cpu:N or cuda:0[,cuda:0…]; "
        "CPUs share the cores, unless OMP_NUM_THREADS says how many threads a kernel has",
    },
    "--ps-devices": {"metavar": "D", "help": "devices of each parameter server (default cpu:1)"},
    "--steps": {
        "type": int,
        "metavar": "N",
        "help": "steps each client runs (module 100, graph file 1, else the workload's)",
    },
    "--seed": {
        "type": int,
        "default": 0,
        "metavar": "N",
        "help": "of initial values and data order",
    },
    "--trace": {
        "default": "all",
        "metavar": "P",
        "help": "steps to record: all, none, every:N or A-B (default all)",
    },
    **RECORDING_FLAGS,
    "--option": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "help": "an option that the strategy or workload declares (see tracer list)",
    },
    "--passes": {
        "metavar": "P[,…]",
        "default": "",
        "help": f"optimizations to switch on: {', '.join(OPTIMIZATIONS)}",
    },
    "--placer": {
        "choices": PLACERS,
        "default": PLACERS[0],
        "help": "how nodes get devices: tf (TensorFlow's rules), or cost (a simulated step)",
    },
    "--costs": {
        "metavar": "FILE",
        "help": "times to place by and to predict a step from: a trace of the workload, or JSON",
    },
    "--soft-placement": {
        "action": "store_true",
        "help": "where a device is missing, take another one of the task that is asked for",
    },
    "--in-process": {"action": "store_true", "help": "all tasks in one process, no RPC"},
    "--transport": {
        "choices": TRANSPORTS,
        "default": TRANSPORTS[0],
        "help": "how tasks talk: grpc, or local (one host: unix sockets and shared memory)",
    },
    "--collectives": {
        "choices": COLLECTIVES,
        "default": COLLECTIVES[0],
        "help": "how ranks sum: visible (hop by hop, each recorded), or native (torch.distributed)",
    },
    "--step-timeout": {
        "type": float,
        "default": LIMITS.step_s,
        "metavar": "S",
        "help": f"seconds that a step may take (default {LIMITS.step_s:g})",
    },
    "--connect-timeout": {
        "type": float,
        "default": LIMITS.connect_s,
        "metavar": "S",
        "help": f"seconds to wait for every task (default {LIMITS.connect_s:g})",
    },
    "--session-gc": {
        "type": float,
        "default": LIMITS.session_gc_s,
        "metavar": "S",
        "help": "seconds of a client's silence until its sessions are closed (default 0: never)",
    },
    "--cache-responses": {
        "action": "store_true",
        "help": "keep each tensor sent until it has arrived: connections between workers may break",
    },
    "--allow-proxy": {"action": "store_true", "help": "let http_proxy carry cluster traffic"},
    **TOLERANCE_FLAGS,
    "--out": {
        "metavar": "DIR",
        "help": "trace folder (default ./<workload>-<strategy>-<time>.trace); of several "
        "strategies, the folder of <strategy>.trace",
    },
    "--json": {
        "action": "store_true",
        "help": "one JSON object on stdout when done, in a line for each strategy",
    },
}


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    for flag, settings in RUN_FLAGS.items():
        parser.add_argument(flag, **settings)


def add_task_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `tracer task`: which task, then those of a run for its client loop."""
    parser.add_argument("workload", nargs="?", default="", help="what to train; none: only serve")
    parser.add_argument(
        "--cluster",
        metavar="FILE",
        help="cluster description (default: TF_CONFIG, else what torchrun says)",
    )
    told = "where nothing else says it"
    parser.add_argument("--job", metavar="J", help=f"job of this task, {told}")
    parser.add_argument("--index", type=int, metavar="I", help=f"its index, {told}")
    parser.add_argument("--secret-file", metavar="F", help="file that holds the cluster's secret")
    for flag, settings in RUN_FLAGS.items():
        if flag not in _OF_RUNS:
            parser.add_argument(flag, **settings)
    parser.set_defaults(in_process=False, restart=0, fault="")


def secret_of(file: str | None) -> str:
    """The cluster's secret; empty without a file, which allows loopback addresses only."""
    return read_text(Path(file), "--secret-file", BadRequest).strip() if file else ""


def plan_of_task(
    parsed: argparse.Namespace, place: Place, declared: Declared, is_graph: bool = False
) -> Plan:
    """The plan of a task started by hand; the cluster says how many tasks of each job there are.

    Raises BadRequest for a graph, or flags of training without workload.
    """
    if is_graph or names_graph(parsed.workload):
        raise BadRequest(
            f"{parsed.workload} is a graph, whose client is tracer run, not one of its tasks: "
            "leave it out here, or run it with tracer run"
        )
    jobs = place.cluster.jobs
    parsed.workers, parsed.ps = (len(jobs.get(job, ())) or None for job in ("worker", "ps"))
    if parsed.out and place.trace:
        parsed.out = str(Path(parsed.out) / place.trace)
    if place.local_rank is not None and parsed.devices == AUTO and (found := gpus()):
        parsed.devices = found[place.local_rank % len(found)]
    if parsed.workload:
        return replace(plan_from(parsed, declared), run_id=place.run_id)
    if flag := _given(parsed, _OF_CLIENTS):
        taken = (other for other in RUN_FLAGS if other not in (*_OF_CLIENTS, *_OF_RUNS))
        raise BadRequest(
            f"{flag} is for a task that trains, and without WORKLOAD it only serves: leave {flag} "
            f"out, or name the workload. A task that serves takes {', '.join(taken)}"
        )
    return Plan(
        run_id=place.run_id,
        out=parsed.out or "",
        topology=_topology(parsed),
        limits=_limits(parsed),
        recording=recording_from(parsed),
        passes=named_passes(parsed.passes),
        placer=placer_from(parsed),
        transport=_transport(parsed),
        collectives=parsed.collectives,
        allow_proxy=parsed.allow_proxy,
        caches_responses=parsed.cache_responses,
        tolerance=tolerance_from(parsed),
    )


def _given(parsed: argparse.Namespace, flags: Iterable[str]) -> str:
    """The first of them that was given another value than its default; empty: none was."""
    for flag in flags:
        value = getattr(parsed, flag.removeprefix("--").replace("-", "_"))
        if value != RUN_FLAGS[flag].get("default"):
            return flag
    return ""


class BadRequest(Refusal):
    """A flag with a value that cannot be served; the text says what is allowed."""


def plan_from(
    parsed: argparse.Namespace,
    declared: Declared,
    is_graph: bool = False,
) -> Plan:
    """The plan that the flags ask for; `declared` are the options of the workload.

    `is_graph` says that the workload is a graph, as a graph file always is. Raises BadRequest,
    StrategyError, OptionError, GraphError, ToleranceError or FaultError.
    """
    is_file = names_graph(parsed.workload)
    is_graph = is_graph or is_file
    refused = (*_OF_MODULES, "--option") if is_file else _OF_MODULES
    if is_graph and (flag := _given(parsed, refused)):
        raise BadRequest(f"{flag} is for modules; a graph names its devices itself")
    if not is_graph and not parsed.strategy:
        raise StrategyError(
            f"{parsed.workload} is a module: say --strategy, one of {', '.join(STRATEGIES)}"
        )
    strategy = "" if is_graph else find_strategy(parsed.strategy).name
    return Plan(
        run_id=new_run_id(),
        out=parsed.out or "",
        workload="" if is_file else parsed.workload,
        graph_file=parsed.workload if is_file else "",
        strategy=strategy,
        options=_options(parsed, strategy, declared),
        topology=_topology(parsed),
        steps=_steps(parsed, is_file=is_file, is_graph=is_graph),
        seed=_at_least("--seed", parsed.seed, 0, default=0),
        trace=TracePolicy(parsed.trace, sampler_from()),
        limits=_limits(parsed),
        recording=recording_from(parsed),
        passes=named_passes(parsed.passes),
        placer=placer_from(parsed),
        in_process=parsed.in_process,
        transport=_transport(parsed),
        collectives=parsed.collectives,
        allow_proxy=parsed.allow_proxy,
        caches_responses=parsed.cache_responses,
        tolerance=tolerance_from(parsed),
    )


def _options(parsed: argparse.Namespace, strategy: str, declared: Declared) -> Mapping[str, str]:
    """Those of strategy and workload together. Raises OptionError, also where both have one."""
    if not strategy:
        return options_in_force(declared, parsed.option, f"{parsed.workload} declares")
    own = STRATEGIES[strategy].options
    if both := own.keys() & declared.keys():
        raise OptionError(
            f"{strategy} and {parsed.workload} both declare the option {min(both)!r}; "
            "rename that parameter of the factory"
        )
    return options_in_force(
        {**own, **declared}, parsed.option, f"{strategy} and {parsed.workload} declare"
    )


def _steps(parsed: argparse.Namespace, *, is_file: bool, is_graph: bool) -> int:
    """0: as many as the graph asks for, once it is made."""
    if parsed.steps is None and is_graph and not is_file:
        return 0
    return _at_least("--steps", parsed.steps, 1, default=1 if is_file else 100)


def placer_from(parsed: argparse.Namespace) -> Placer:
    """Of `--placer`, `--costs` and `--soft-placement`. Raises CostsError or OSError."""
    costs = read_costs(Path(parsed.costs)) if parsed.costs else None
    return Placer(parsed.placer, costs, parsed.soft_placement)


def names_graph(workload: str) -> bool:
    return workload.endswith(".json")


def _transport(parsed: argparse.Namespace) -> str:
    transport: str = parsed.transport
    if transport != TRANSPORTS[0] and parsed.in_process:
        raise BadRequest(
            f"--transport {transport} joins processes, and --in-process has only one; leave one out"
        )
    return transport


def _limits(parsed: argparse.Namespace) -> Limits:
    for flag in ("connect_timeout", "step_timeout"):
        seconds = getattr(parsed, flag)
        if not (math.isfinite(seconds) and seconds > 0):
            raise BadRequest(f"--{flag.replace('_', '-')} {seconds:g}: must be more than 0 seconds")
    idle_s = parsed.session_gc
    if not (math.isfinite(idle_s) and idle_s >= 0):
        raise BadRequest(f"--session-gc {idle_s:g}: must be 0, which keeps all, or more seconds")
    return Limits(parsed.connect_timeout, parsed.step_timeout, session_gc_s=idle_s)


def _topology(parsed: argparse.Namespace) -> Topology:
    of_ps = parsed.ps_devices
    return Topology(
        parsed.workers,
        parsed.ps,
        devices_from(parsed.devices),
        devices_from(of_ps, "--ps-devices") or gpus() if of_ps else None,
    )


def _at_least(flag: str, value: int | None, least: int, *, default: int) -> int:
    number = default if value is None else value
    if number < least:
        raise BadRequest(f"{flag} {number}: must be {least} or more")
    return number
