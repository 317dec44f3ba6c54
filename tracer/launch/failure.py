"""Why a run failed: every failure heard of, as one type, ranked by what explains what."""

from dataclasses import dataclass

from tracer.launch.child import Event, how_it_ended, signal_name
from tracer.model.cluster import TaskName
from tracer.rpc.pulse import SILENT
from tracer.runtime.interfaces import StepError


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed. The lowest `rank` of several is the root cause.

    A process that died explains every error that its peers report (`UNAVAILABLE`, aborted recvs),
    an error of its own explains the derived ones. `is_silence`: it lives, and answers nobody.
    """

    task: TaskName
    cause: str
    step: int = 0
    code: str = ""
    node: str = ""
    rank: int = 1
    is_silence: bool = False

    def __str__(self) -> str:
        where = f"{self.task} in step {self.step}" if self.step else f"{self.task}"
        return f"{where}: {self.cause}"

    def to_json(self) -> dict[str, str]:
        """The fields that `--json` prints."""
        return {
            "code": self.code or "UNAVAILABLE",
            "node": self.node,
            "task": str(self.task),
            "message": self.cause,
        }


class RunFailed(Exception):
    """A run that failed, with its one root cause."""

    def __init__(self, failure: Failure, log_tail: list[str]) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.log_tail = log_tail


DIED, ERROR, PEER_LOST, DERIVED = range(4)

SILENCE = "ping timeout", SILENT  #: how gRPC and sockets say that a peer hangs


def failure_of(event: Event) -> Failure | None:
    """The failure that an event tells of, if it tells of one."""
    facts = event.facts
    step = facts.get("step", 0)
    if event.name == "exit" and not facts["expected"]:
        return Failure(event.task, how_it_ended(facts["code"]), step=step, rank=DIED)
    if event.name == "stopped":
        cause = f"was stopped by {signal_name(facts['signal'])}, and does not go on"
        return Failure(event.task, cause, step=step, rank=DIED, is_silence=True)
    if event.name in ("failed", "lost"):
        error = StepError(
            facts["code"],
            facts["message"],
            task=facts.get("task", ""),
            node=facts.get("node", ""),
            derived=facts.get("derived", False),
        )
        return failure_from(event.task, error, step)
    return None


def failure_from(client: TaskName, error: StepError, step: int) -> Failure:
    """An error as its client saw it, at the task that it names."""
    rank = DERIVED if error.derived else PEER_LOST if error.code == "UNAVAILABLE" else ERROR
    task, text = _task_of(error, client), error.message
    is_silence = rank == PEER_LOST and task != client and any(sign in text for sign in SILENCE)
    return Failure(task, text, step, error.code, error.node, rank, is_silence)


def _task_of(error: StepError, client: TaskName) -> TaskName:
    try:
        return TaskName.parse(error.task)
    except ValueError:  # it does not say, or its place is none of the cluster
        return client
