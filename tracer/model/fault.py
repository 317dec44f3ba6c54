"""Faults that a user asks for: what happens to which task, and when.

kill:ps:1@step:15            SIGKILL
stop:worker:1@step:5         SIGSTOP: it lives and does nothing
delay=50:ps:0@step:5         from then on every frame that reaches it is 50 ms late
drop:worker:1@step:5         one request for a tensor never arrives
error:worker:1@step:5        one of its ops fails
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tracer.model.cluster import ClusterSpec, TaskName
from tracer.model.refusal import Refusal, did_you_mean


class FaultError(Refusal):
    """A fault that cannot be asked for; the text says how it is written."""


class Kind(StrEnum):
    KILL = "kill"
    STOP = "stop"
    DELAY = "delay"
    DROP = "drop"
    ERROR = "error"


OF_FRAMES: Final = frozenset({Kind.DELAY, Kind.DROP})  #: what happens on the way between tasks
LONGEST_MS: Final = 3_600_000

RULE: Final = "write KIND:JOB:INDEX@step:N with KIND kill, stop, delay=MS, drop or error"

_FORM = re.compile(
    r"(?P<kind>[^:=@]+)(=(?P<ms>[^:@]*))?:(?P<job>[^:@]+):(?P<index>\d+)@step:(?P<step>\d+)"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Happens once, in step `step` or the first one after it that the task takes part in."""

    kind: Kind
    task: TaskName
    step: int
    delay_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Raises FaultError."""
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise FaultError(f"--fault {text}: {RULE}, such as kill:ps:1@step:15")
        try:
            kind = Kind(found["kind"])
        except ValueError:
            hint = did_you_mean(found["kind"], Kind)
            raise FaultError(
                f"--fault {text}: no fault is {found['kind']!r}{hint}; {RULE}"
            ) from None
        if int(found["step"]) < 1:
            raise FaultError(f"--fault {text}: steps count from 1")
        task = TaskName(found["job"], int(found["index"]))
        return cls(kind, task, int(found["step"]), _delay(text, kind, found["ms"]))

    def __str__(self) -> str:
        ms = f"={self.delay_ms}" if self.kind is Kind.DELAY else ""
        return f"{self.kind}{ms}:{self.task}@step:{self.step}"


def faults_from(text: str) -> tuple[Fault, ...]:
    """Several with commas between them; an empty text is none. Raises FaultError."""
    return tuple(map(Fault.parse, text.split(","))) if text else ()


def check_faults(faults: tuple[Fault, ...], cluster: ClusterSpec, steps: int) -> None:
    """Raises FaultError for one that could never happen in such a run."""
    tasks = list(cluster.tasks())
    for fault in faults:
        if fault.task not in tasks:
            known = ", ".join(map(str, tasks))
            raise FaultError(f"--fault {fault}: there is no task {fault.task}; there are {known}")
        if fault.step > steps:
            raise FaultError(
                f"--fault {fault}: the run has {steps} steps; name an earlier one, or raise --steps"
            )
        if fault.kind in OF_FRAMES and len(tasks) == 1:
            raise FaultError(
                f"--fault {fault}: {fault.task} is alone, no frame ever reaches it; run a strategy "
                "with several tasks, such as parameter_server_v1"
            )


def _delay(text: str, kind: Kind, ms: str | None) -> int:
    if kind is not Kind.DELAY:
        if ms is not None:
            raise FaultError(f"--fault {text}: {kind} takes no value; {RULE}")
        return 0
    if not (ms or "").isdecimal() or not 0 < int(ms or 0) <= LONGEST_MS:
        raise FaultError(
            f"--fault {text}: a delay is in milliseconds, 1 to {LONGEST_MS}: {kind}=50:…"
        )
    return int(ms or 0)
