"""What went wrong: the root cause, tasks that ended badly, errors, spans that never ended."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tracer.model.trace_folder import Flag, TaskRecord
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace

BAD_OUTCOMES = ("failed", "killed", "lost")
HOUSEKEEPING = ("launcher", "collector", "client")  #: jobs that look after those that compute

#: How a manifest tells the one cause of a failure: `worker:1 in step 401: was killed by SIGKILL`.
_TOLD = re.compile(r"(?P<task>\w+:\d+)(?: in step (?P<step>\d+))?: (?P<error>.+)", re.DOTALL)
SIGNAL = re.compile(r"was killed by (\w+)")
_STOPPED = re.compile(r"was stopped by (\w+), and does not go on")


@dataclass(frozen=True, slots=True)
class RootCause:
    """Why a run did not end well. `key` names a text, `analysis.cause.<key>`, that takes `values`.

    `step` is the one it failed in, 0 if in none; `proof` are spans that never ended or hold the
    error, those of the guilty task first.
    """

    key: str
    values: Mapping[str, object] = field(default_factory=dict)
    step: int = 0
    proof: tuple[int, ...] = ()

    @property
    def error(self) -> str:
        """How the messages of what failed for it begin; "" where no error is known."""
        return str(self.values.get("error", "")).removesuffix("…")


@dataclass(frozen=True, slots=True)
class Faults:
    """`tasks` ended badly; `unfinished`, `errors` count spans by task, `proof` are some of them.

    The run as a whole, which holds every error, is not counted.
    """

    cause: RootCause | None
    error: str
    tasks: tuple[TaskRecord, ...]
    unfinished: Mapping[str, int]
    errors: Mapping[str, int]
    proof: tuple[int, ...]
    num_missing: int

    @property
    def none(self) -> bool:
        counted = self.unfinished or self.errors or self.num_missing
        return not (self.cause or self.error or self.tasks or counted)


def faults(trace: Trace) -> Faults:
    manifest = trace.manifest
    tasks = tuple(task for task in manifest.tasks if task.outcome in BAD_OUTCOMES)
    told = _TOLD.fullmatch(manifest.error)
    guilty = told["task"] if told else tasks[0].task if tasks else ""
    shown = _shown(trace, guilty)
    proof = tuple(shown.span.tolist())
    return Faults(
        cause=_cause(trace, tasks, proof, int(shown.step[0]) if len(shown) else 0),
        error=manifest.error,
        tasks=tasks,
        unfinished=_by_task(trace, Flag.UNFINISHED),
        errors=_by_task(trace, Flag.ERROR),
        proof=proof,
        num_missing=max(0, manifest.recorded - manifest.written),
    )


def _cause(
    trace: Trace, tasks: Sequence[TaskRecord], proof: tuple[int, ...], step: int
) -> RootCause | None:
    """A dead process explains the errors of its peers, so the manifest's one cause goes first."""
    manifest = trace.manifest
    if told := _TOLD.fullmatch(manifest.error):
        return _of_task(told["task"], told["error"], int(told["step"] or step), proof)
    if tasks:
        guilty = tasks[0]
        error = guilty.error or manifest.error or guilty.outcome
        return _of_task(guilty.task, error, step, proof)
    if manifest.outcome == "failed":
        return RootCause("failed", {"error": _in_short(manifest.error)}, step, proof)
    is_open = manifest.outcome in ("interrupted", "running") and not trace.is_foreign
    return RootCause(manifest.outcome, {}, 0, proof) if is_open else None


def _of_task(task: str, error: str, step: int, proof: tuple[int, ...]) -> RootCause:
    values: dict[str, object] = {"task": task, "step": f"{step:,}"}
    if signal := SIGNAL.fullmatch(error):
        key, values["signal"] = "signal", signal[1]
    elif signal := _STOPPED.fullmatch(error):
        key, values["signal"] = "stopped", signal[1]
    elif error in BAD_OUTCOMES:
        key = error
    else:
        key, values["error"] = "task", _in_short(error)
    return RootCause(f"{key}_in_step" if step else key, values, step, proof)


def _in_short(error: str, most: int = 160) -> str:
    """The first line: what follows are details and traces of the stack."""
    line = (error.strip().splitlines() or [""])[0].rstrip(".")
    return line if len(line) <= most else f"{line[:most]}…"


def _shown(trace: Trace, guilty: str, most: int = 5) -> Spans:
    """Of the guilty task first, there the op that failed, else what stood deepest or began first.

    Of spans that never ended the one that began last lies in the others.
    """
    flagged = trace.all.take((trace.all.flags & (Flag.ERROR | Flag.UNFINISHED)) != 0)
    is_open = (flagged.flags & Flag.UNFINISHED) != 0
    order = np.lexsort(
        (
            np.where(is_open, -flagged.start, flagged.start),
            ~flagged.is_kind("op.run"),
            flagged.step == 0,  # the run as a whole holds every error
            flagged.task != guilty,
        )
    )
    return flagged.take(order[:most])


def _by_task(trace: Trace, flag: int) -> dict[str, int]:
    spans = trace.all
    rows = spans.row[((spans.flags & flag) != 0) & ~spans.is_kind("run")]
    counts = np.bincount(rows, minlength=len(trace.rows))
    found: dict[str, int] = {}
    for row, count in zip(trace.rows, counts.tolist(), strict=True):
        if count:
            found[row.task] = found.get(row.task, 0) + count
    return found
