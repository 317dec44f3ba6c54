"""What a client says to whoever started it, and what it hears from there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tracer.runtime.interfaces import StepError

#: errors that say that a task is gone or not the one it was; TF recovers from the same
RECOVERABLE = ("UNAVAILABLE", "ABORTED")


@dataclass(frozen=True, slots=True)
class Round:
    """How all clients go on after a death.

    `leads`: this one restores and saves the variables, be it the chief or not. `has_begun`: some
    client may have run a step; before that, first values undo nothing. `number`: how often all have
    made their sessions anew.
    """

    leads: bool
    has_begun: bool = True
    number: int = 0


@dataclass(frozen=True, slots=True)
class Again:
    """The task died and was started again; its client had ended `done` steps."""

    done: int
    round: Round


@dataclass(frozen=True, slots=True)
class Ready:
    """A client may go on after `step`; `is_rolled_back`: and so must the others.

    `held` are the variables of its graph by the task that holds them.
    """

    step: int = 0
    is_rolled_back: bool = False
    held: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Line:
    """What a client says to whoever started it, and hears from there.

    `on_step` hears the number of each step before it begins, and 0 while there is none yet.
    `line_up` returns when the first step may begin, and after which one it comes. `recover`, where
    dead tasks are started again, is told of a loss and returns when sessions may be made anew. It
    raises the error where that was no such loss. All may raise.
    """

    on_step: Callable[[int], None] = lambda _: None
    line_up: Callable[[Ready], int] = lambda ready: ready.step
    recover: Callable[[StepError], Round] | None = None


NO_LINE = Line()
