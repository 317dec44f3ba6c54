"""What is asked of a run's record: its flags, and the form in which tasks and collector get it."""

import argparse
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracer.model.refusal import Refusal
from tracer.model.schema import DETAILS
from tracer.record.collector import Counts, Orders
from tracer.record.export_target import target_from
from tracer.record.otel_settings import is_disabled, resource_from
from tracer.record.recorder import NO_RECORDER, RUN_ID, Recorder

if TYPE_CHECKING:
    from tracer.launch.plan import Plan

UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE: Final = re.compile(r"([1-9][0-9]{0,17})\s*([KMGT]B)?", re.IGNORECASE)


class RecordingError(Refusal):
    """A flag about the record with a value that cannot be served."""


@dataclass(frozen=True, slots=True)
class Recording:
    """`detail` is a level of `schema.DETAILS`; bytes are of the trace folder."""

    detail: str = DETAILS[-1]
    endpoint: str = ""
    flush_s: float = 30.0
    limit_bytes: int = 10 * UNITS["GB"]

    @property
    def orders(self) -> Orders:
        return Orders(self.endpoint, self.flush_s, self.limit_bytes)


DEFAULT: Final = Recording()

#: flag → argparse settings, in the order of `--help`
RECORDING_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "--detail": {
        "choices": DETAILS,
        "default": DEFAULT.detail,
        "help": "what is recorded of a step: step (requests), rpc (calls and partitions too) or "
        "op (every op and transfer; the default)",
    },
    "--endpoint": {
        "metavar": "URL",
        "default": "",
        "help": "send the spans to an OTLP receiver too: http://HOST:4318 or grpc://HOST:4317 "
        "(default: OTEL_EXPORTER_OTLP_ENDPOINT)",
    },
    "--flush-timeout": {
        "type": float,
        "metavar": "S",
        "default": DEFAULT.flush_s,
        "help": f"seconds for the rest to be sent when the run is over "
        f"(default {DEFAULT.flush_s:g})",
    },
    "--max-trace-size": {
        "metavar": "N",
        "default": "10GB",
        "help": "bytes (or KB, MB, GB) at which recording stops while the run goes on "
        "(default 10GB)",
    },
}


def recording_from(parsed: argparse.Namespace) -> Recording:
    """Raises RecordingError or EndpointError."""
    if not (math.isfinite(parsed.flush_timeout) and parsed.flush_timeout >= 0):
        raise RecordingError(f"--flush-timeout {parsed.flush_timeout:g}: must be 0 seconds or more")
    target_from(parsed.endpoint)  # says here, where a user looks, what is wrong with it
    return Recording(
        parsed.detail,
        parsed.endpoint,
        parsed.flush_timeout,
        bytes_from(parsed.max_trace_size),
    )


def bytes_from(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise RecordingError(
            f"--max-trace-size {text}: write bytes, more than 0, such as 2000000 or 500MB "
            f"({', '.join(filter(None, UNITS))})"
        )
    return int(found[1]) * UNITS[(found[2] or "").upper()]


def resource_of(run_id: str) -> Mapping[str, object]:
    """What every process of a run says of itself."""
    return {**resource_from(), RUN_ID: run_id}


def open_recorder(scratch: Path, name: str, plan: "Plan") -> Recorder:
    """The recorder of one process of a run."""
    if is_disabled():
        return NO_RECORDER
    return Recorder(scratch, name, resource_of(plan.run_id), detail=plan.recording.detail)


def spans_told(counts: Counts) -> Mapping[str, int]:
    """Counts of spans as a run prints them; what is as ever is left out."""
    told = {"recorded": counts.recorded, "written": counts.written}
    if counts.export:
        told |= {name: counts.export[name] for name in ("exported", "not_exported")}
    return told


def warnings_of(counts: Counts) -> Iterator[str]:
    """Why the trace, or what a receiver got of it, is not whole."""
    if counts.error:
        yield f"the trace is not whole: {counts.error}"
    if counts.stopped:
        steps = counts.unrecorded_steps
        yield f"recording stopped, {steps} steps are not in the trace: {counts.stopped}"
    if counts.export and counts.export["not_exported"]:
        yield (
            f"{counts.export['not_exported']} spans did not reach {counts.export['endpoint']}: "
            f"{counts.export['error'] or 'there was no time (--flush-timeout)'}; "
            "they are in the trace"
        )
