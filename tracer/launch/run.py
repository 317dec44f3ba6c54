"""`tracer run`: a job on child processes, or in this one, and what is printed of it."""

import logging
from collections.abc import Mapping
from typing import Any

from tracer.launch.in_process import run_in_process
from tracer.launch.jobs import Job
from tracer.launch.launcher import Launcher, Outcome, Report
from tracer.launch.plan import Plan
from tracer.launch.tolerance import check_tolerance
from tracer.model.metric import NOT_JUDGED, Metric
from tracer.training.signatures import warning_of

_log = logging.getLogger(__name__)


def run_job(plan: Plan, job: Job, report: Report) -> Mapping[str, Any]:
    """Runs the plan; returns what is printed. Raises RunFailed or StepError, KeyboardInterrupt."""
    has_only_collectives = job.is_group and "ps" not in job.cluster.jobs
    by_frames = not (has_only_collectives and plan.collectives == "native")
    if step := check_tolerance(plan.tolerance, job.cluster, plan.steps, by_frames=by_frames):
        _log.warning(
            "goes on after step %d, from its checkpoint in %s", step, plan.tolerance.folder
        )
    if plan.in_process:
        outcome = run_in_process(plan, job, report)
    else:
        outcome = Launcher(plan, job, report).run()
    warn_of_signatures(outcome)
    return run_summary(plan, outcome)


def warn_of_signatures(outcome: Outcome) -> None:
    """Captures cost more than steps, so a run whose batches never have one shape says so."""
    for task, found in outcome.results.items():
        if warning := warning_of(found.get("signatures", ())):
            _log.warning("%s: %s", task, warning)


def run_summary(plan: Plan, outcome: Outcome) -> Mapping[str, Any]:
    return module_summary(plan, outcome) if plan.strategy else graph_summary(outcome)


def graph_summary(outcome: Outcome) -> Mapping[str, Any]:
    (found,) = outcome.results.values()
    return {**found, **_trace(outcome)}


def module_summary(plan: Plan, outcome: Outcome) -> Mapping[str, Any]:
    """`steps` are of all clients together, `loss` the mean of their last ones."""
    found = list(outcome.results.values())
    steps = sum(len(f["losses"]) for f in found)
    seconds = max(f["seconds"] for f in found)
    last = [f["losses"][-1] for f in found if f["losses"]]
    judged = [Metric(**f["metric"]).to_json() for f in found if f["metric"]]
    return {
        "workload": plan.workload,
        "strategy": plan.strategy,
        "steps": steps,
        "seconds": seconds,
        "steps_per_s": steps / seconds if seconds else None,
        "loss": sum(last) / len(last) if last else None,
        **(judged[0] if judged else NOT_JUDGED),
        **_trace(outcome),
    }


def task_summary(plan: Plan, outcome: Outcome) -> Mapping[str, Any]:
    """Of a task started by hand, which may have had no client."""
    warn_of_signatures(outcome)
    return run_summary(plan, outcome) if outcome.results else _trace(outcome)


def _trace(outcome: Outcome) -> Mapping[str, Any]:
    return {
        "bytes": outcome.num_bytes,
        "spans": outcome.spans,
        "trace": outcome.trace,
    }
