"""The tracer command: run, task, partition, cluster check, schema, list, doctor."""

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tracer import __doc__ as about
from tracer import __version__
from tracer.launch.arguments import (
    RUN_FLAGS,
    add_run_flags,
    add_task_flags,
    names_graph,
    placer_from,
    plan_of_task,
    secret_of,
)
from tracer.launch.failure import RunFailed
from tracer.launch.place import place_of
from tracer.launch.plan import PLAN_VARIABLE, Plan
from tracer.launch.progress_line import ProgressLine
from tracer.launch.several import plans_from
from tracer.launch.signals import interrupted_by_signals
from tracer.model.cluster import ClusterError, TaskName, parse_cluster
from tracer.model.cluster_config import loopback_warnings
from tracer.model.graph_json import read_graph_file
from tracer.model.json_text import plain_json, read_text
from tracer.model.metric import Metric
from tracer.model.option import Declared
from tracer.model.refusal import Refusal
from tracer.model.schema import SCHEMA_VERSION, SPAN_KINDS
from tracer.passes.optimize import named_passes

if TYPE_CHECKING:
    from tracer.launch.jobs import Job
    from tracer.workloads.graph_workload import GraphWorkload
    from tracer.workloads.requested import Requested

# ruff: noqa: PLC0415 (torch takes seconds to import: only commands that run something pay for it)

EXIT_DONE, EXIT_FAILED, EXIT_REFUSED, EXIT_INTERRUPTED = 0, 1, 2, 130

EXAMPLES: Mapping[str, str] = {
    "run": """examples:
  tracer run digits-mlp --strategy parameter_server_v1 --ps 1 --workers 2 --steps 50 --out run.trace
  tracer run digits-mlp --strategy one_device --steps 50 --json
  tracer run digits-mlp --strategy one_device,mirrored --steps 50 --out both    each into both/
  tracer run train:make --strategy one_device    what make() of your train.py returns
  tracer run graph.json --json        run a hand-written graph once
""",
    "task": """examples:
  tracer task --cluster cluster.json --job ps --index 0    one task of a cluster started by hand
  torchrun --nproc-per-node 2 -m tracer task digits-mlp --strategy multi_worker_mirrored

Every task of a cluster description writes a folder of the same run; vizdist import puts them
together. To tell one run of a description from the next, set VIZDIST_RUN_ID to a word of your own,
the same one for every task.
""",
    "partition": """example:
  tracer partition graph.json --json | python -m json.tool
""",
    "cluster": """example:
  tracer cluster check cluster.json   the rules that a run applies, before any socket opens
""",
}


class Parser(argparse.ArgumentParser):
    """argparse, with the nearest match beside what it did not know."""

    def error(self, message: str) -> NoReturn:
        known = [flag for action in self._actions for flag in action.option_strings]
        words = (word.partition("=")[0] for word in message.split())
        unknown = [word for word in words if word.startswith("--")]
        for word in unknown:
            if near := difflib.get_close_matches(word, known, 1):
                message += f"; did you mean {near[0]}?"
        self.exit(EXIT_REFUSED, f"{self.prog}: {message}\nSee {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code: 0 done, 1 failed, 2 refused, 130 interrupted."""
    if isinstance(sys.stdout, TextIOWrapper):  # a path may hold what no encoding has
        sys.stdout.reconfigure(errors="backslashreplace")
    parsed = _parse(arguments)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        code = _exit_code(partial(command, parsed))
        print(end="", flush=True)
        return code
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except KeyboardInterrupt as interrupted:
        _say_why(interrupted)
        return EXIT_INTERRUPTED


def _exit_code(run: Callable[[], int]) -> int:
    """That of `run`, or of what ended it, with the reason on stderr."""
    try:
        return run()
    except BrokenPipeError:
        raise
    except (Refusal, FileNotFoundError, IsADirectoryError, PermissionError) as refusal:
        _say_why(refusal)
        return EXIT_REFUSED
    except (RunFailed, OSError) as failed:
        _say_why(failed)
        return EXIT_FAILED


def _say_why(error: BaseException) -> None:
    """The cause, the failed task's last words, and where what was recorded lies."""
    lines = [f"tracer: {error}"]
    if isinstance(error, KeyboardInterrupt):
        lines = ["tracer: interrupted"]
    elif isinstance(error, OSError):
        lines = [f"tracer: {error.filename or 'failed'}: {error.strerror or error}"]
    elif isinstance(error, RunFailed) and error.log_tail:
        lines.append(f"the last lines of {error.failure.task}:")
        lines += [f"  {line}" for line in error.log_tail]
    print("\n".join([*lines, *getattr(error, "__notes__", ())]), file=sys.stderr)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Unknown flags are reported by the sub-command that got them, which knows its own flags."""
    parser = command_parser()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        parsed.parser.error(f"unknown argument {' '.join(unknown)}")
    return parsed


def command_parser() -> Parser:
    parser = Parser(prog="tracer", description=about)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, says: str, run: Callable[[argparse.Namespace], int]) -> Parser:
        added: Parser = commands.add_parser(
            name,
            help=says,
            description=says,
            epilog=EXAMPLES.get(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.set_defaults(command=run, parser=added)
        return added

    run = command("run", "Run a workload or a graph file on real processes and record it.", _run)
    run.add_argument(
        "workload", help="a name from tracer list, package.module:factory, or a GRAPH.json"
    )
    add_run_flags(run)
    task = command("task", "Run one task of a cluster.", _task)
    add_task_flags(task)
    partition = command("partition", "Place and cut a graph file without running it.", _partition)
    partition.add_argument("graph", metavar="GRAPH.json", help="nodes, feeds, fetches and devices")
    for flag in ("--passes", "--placer", "--costs", "--soft-placement"):
        partition.add_argument(flag, **RUN_FLAGS[flag])
    partition.add_argument("--json", action="store_true", help="one JSON object on stdout")
    cluster = command("cluster", "Check a cluster description.", _cluster)
    cluster.add_argument("action", choices=["check"], help="what to do with it")
    cluster.add_argument("file", metavar="FILE", help="TF_CONFIG or the cluster object, as JSON")
    schema = command("schema", "Print the span schema.", _schema)
    schema.add_argument("--json", action="store_true", help="one JSON object on stdout")
    listing = command("list", "List workloads and strategies with their options.", _list)
    listing.add_argument("--json", action="store_true", help="one JSON object on stdout")
    command("doctor", "Say what a run finds here: versions, devices, limits, settings.", _doctor)
    return parser


def _requested(parsed: argparse.Namespace) -> "Requested | None":
    """What a command line wants to train: before a strategy is missed, a name that is none is."""
    from tracer.workloads.requested import Requested

    if not parsed.workload or names_graph(parsed.workload):
        return None
    return Requested.named(parsed.workload)


def _declared(requested: "Requested | None") -> tuple[Declared, bool]:
    """Its options, and whether it is a graph."""
    return (requested.options, requested.is_graph) if requested else ({}, False)


def _planned(plan: Plan, requested: "Requested | None") -> tuple[Plan, "Job"]:
    """The job of a command line; what it runs is made at once, so that it is refused at once.

    A graph says how many steps it is worth, where nobody did.
    """
    from tracer.launch.jobs import GraphJob, ModuleJob

    if requested is None or requested.is_graph:
        graph = _graph(plan, requested)
        plan = replace(plan, steps=plan.steps or graph.steps)
        return plan, GraphJob(plan, graph)
    workload = requested.make(plan.options, plan.seed)
    return plan, ModuleJob(plan, lambda: workload)


def _graph(plan: Plan, requested: "Requested | None") -> "GraphWorkload":
    from tracer.workloads.graph_workload import GraphWorkload

    if requested is None:
        return GraphWorkload(read_graph_file(Path(plan.graph_file)))
    return requested.make_graph(plan.options, plan.seed)


def _job_of_child(plan: Plan) -> "Job":
    """The same in a process that a launcher started: clients find and make it for themselves."""
    from tracer.launch.jobs import ModuleJob
    from tracer.workloads.requested import Requested

    if not plan.strategy:
        return _planned(plan, Requested.named(plan.workload) if plan.workload else None)[1]
    return ModuleJob(plan, lambda: Requested.named(plan.workload).make(plan.options, plan.seed))


def _run(parsed: argparse.Namespace) -> int:
    """The worst exit code of its runs: one that fails takes no other with it."""
    requested = _requested(parsed)
    plans = plans_from(parsed, *_declared(requested))
    with interrupted_by_signals(), _users_prints_aside(parsed):
        (first, *others) = [_planned(plan, requested) for plan in plans]
    if not others:
        return _run_one(parsed, *first, told={})
    code = max(
        _exit_code(partial(_run_one, parsed, plan, job, told={"strategy": plan.strategy}))
        for plan, job in (first, *others)
    )
    if not parsed.json:
        print(f"look at them:  vizdist serve {parsed.out or '.'}")
    return code


def _run_one(parsed: argparse.Namespace, plan: Plan, job: "Job", told: Mapping[str, str]) -> int:
    """`told` says which of several runs it is."""
    from tracer.launch.run import run_job

    progress = ProgressLine("".join(f"{name}: " for name in told.values()))
    try:
        with interrupted_by_signals(), _users_prints_aside(parsed):
            printed = run_job(plan, job, progress)
    except RunFailed as failed:
        if parsed.json:
            _print_json({**told, "error": failed.failure.to_json()})
        raise
    finally:
        progress.end()
    if parsed.json:
        _print_json(printed)
    else:
        _say(printed, len(job.clients))
    return EXIT_DONE


def _users_prints_aside(parsed: argparse.Namespace) -> AbstractContextManager[Any]:
    """With --json, what the user's code prints in this process goes to stderr."""
    return redirect_stdout(sys.stderr) if parsed.json else nullcontext()


def _print_json(value: Mapping[str, Any]) -> None:
    print(json.dumps(plain_json(value), allow_nan=False))


def _say(printed: Mapping[str, Any], num_clients: int) -> None:
    """The result of a run for people: a line a fact, then the next step."""
    for name, value in printed.items():
        if value is None or name in ("accuracy", "trace"):
            continue
        title = value["name"] if name == "metric" else name
        of = f"  (mean of {num_clients} workers)" if name == "loss" and num_clients > 1 else ""
        print(f"{title:12} {_told(name, value)}{of}")
    print(f"{'trace':12} {printed['trace']}\nlook at it:  vizdist serve {printed['trace']}")


def _told(name: str, value: Any) -> str:
    if name == "spans":
        return ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in value.items())
    if name == "metric":
        return str(Metric(**value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _task(parsed: argparse.Namespace) -> int:
    from tracer.launch.by_hand import run_by_hand
    from tracer.launch.jobs import ServeJob
    from tracer.launch.run import task_summary
    from tracer.launch.task import run_child

    if PLAN_VARIABLE in os.environ:
        run_child(TaskName(parsed.job, parsed.index), _job_of_child)
        os._exit(EXIT_DONE)  # all is closed; taking torch apart would cost another second
    requested = _requested(parsed)
    progress = ProgressLine()
    try:
        with interrupted_by_signals():
            place = place_of(parsed)
            plan = plan_of_task(parsed, place, *_declared(requested))
            job: Job = ServeJob(plan, place.cluster)
            if parsed.workload:
                plan, job = _planned(plan, requested)
            outcome = run_by_hand(place, plan, job, secret_of(parsed.secret_file), progress)
    finally:
        progress.end()
    _say(task_summary(plan, outcome), num_clients=1)
    return EXIT_DONE


def _partition(parsed: argparse.Namespace) -> int:
    from tracer.passes.describe import describe_graph_file

    passes = named_passes(parsed.passes)
    placer = placer_from(parsed)
    described = describe_graph_file(read_graph_file(Path(parsed.graph)), passes, placer)
    if parsed.json:
        _print_json(described)
        return EXIT_DONE
    for row in described["placements"]:
        asked = f": no {row['requested_device']}" if row["reason"] == "soft" else ""
        print(f"{row['node']:40} {row['device']}  ({row['reason']}{asked})")
    for transfer in described["transfers"]:
        print(f"{transfer['source']:40} {transfer['send_device']} → {transfer['recv_device']}")
    for name in ("predicted_step_ns", "measured_step_ns"):
        if described.get(name):
            print(f"{name:40} {described[name]:,}")
    return EXIT_DONE


def _cluster(parsed: argparse.Namespace) -> int:
    text = read_text(Path(parsed.file), "the cluster description", ClusterError)
    config = parse_cluster(text)
    for task in config.cluster.tasks():
        me = "  ← this task" if task == config.task else ""
        print(f"{task!s:16} {config.cluster.address(task)}{me}")
    for warning in loopback_warnings(config.cluster):
        print(f"tracer: warning: {warning}", file=sys.stderr)
    return EXIT_DONE


def _doctor(parsed: argparse.Namespace) -> int:
    del parsed
    from tracer.launch.doctor import report, written

    for line in written(report()):
        print(line)
    return EXIT_DONE


def _schema(parsed: argparse.Namespace) -> int:
    if parsed.json:
        kinds = {
            kind.name: {
                "says": kind.says,
                "relation": kind.relation,
                "lane": kind.lane,
                "detail": kind.detail,
                "attributes": dict(kind.attributes),
            }
            for kind in SPAN_KINDS.values()
        }
        _print_json({"version": SCHEMA_VERSION, "kinds": kinds})
        return EXIT_DONE
    print(f"schema {SCHEMA_VERSION}")
    for kind in SPAN_KINDS.values():
        print(f"{kind.name:18} {kind.says}")
    return EXIT_DONE


def _list(parsed: argparse.Namespace) -> int:
    from tracer.workloads.listing import listed, listing_lines

    if parsed.json:
        _print_json(listed())
        return EXIT_DONE
    for line in listing_lines():
        print(line)
    return EXIT_DONE
