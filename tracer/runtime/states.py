"""Every legal move of what has state in the runtime, on one screen.

A move that is not in a table raises with the two states and the story so far, so that a wrong order
of messages is an error where it happens and not a hang later.
"""

from collections.abc import Mapping
from enum import Enum, auto

Table = Mapping[tuple[Enum, str], Enum]


class Session(Enum):
    OPEN = auto()
    CLOSING = auto()  #: no new steps; those that run are aborted and waited for
    CLOSED = auto()


class Step(Enum):
    ISSUED = auto()  #: run_graph went to every worker of the step
    ABORTING = auto()  #: a part failed, or time ran out; the other parts are told to end
    DONE = auto()


class Rendezvous(Enum):
    DEFERRING = auto()  #: known through a RecvTensor that came before run_graph
    READY = auto()
    ABORTED = auto()
    CLEANED = auto()


SESSION: Table = {
    (Session.OPEN, "close"): Session.CLOSING,
    (Session.OPEN, "garbage collect"): Session.CLOSING,
    (Session.CLOSING, "drained"): Session.CLOSED,
}

STEP: Table = {
    (Step.ISSUED, "part failed"): Step.ABORTING,
    (Step.ISSUED, "time out"): Step.ABORTING,
    (Step.ISSUED, "all parts ended"): Step.DONE,
    (Step.ABORTING, "all parts ended"): Step.DONE,
    (Step.ABORTING, "given up"): Step.DONE,
}

RENDEZVOUS: Table = {
    (Rendezvous.DEFERRING, "run_graph"): Rendezvous.READY,
    (Rendezvous.DEFERRING, "abort"): Rendezvous.ABORTED,
    (Rendezvous.DEFERRING, "cleanup"): Rendezvous.CLEANED,
    (Rendezvous.READY, "abort"): Rendezvous.ABORTED,
    (Rendezvous.READY, "cleanup"): Rendezvous.CLEANED,
    (Rendezvous.ABORTED, "run_graph"): Rendezvous.ABORTED,
    (Rendezvous.ABORTED, "cleanup"): Rendezvous.CLEANED,
}


class IllegalMove(RuntimeError):
    """An event that the state does not allow; the text holds the story so far."""


class Machine:
    """One thing's state. Not locked: its owner moves it under its own lock."""

    __slots__ = ("_name", "_story", "_table", "_what", "state")

    def __init__(self, what: str, name: str | int, table: Table, start: Enum) -> None:
        """`what` and `name` are how it is called in errors; a number is shown as hex digits."""
        self._what = what
        self._name = name
        self._table = table
        self._story: list[str] = []
        self.state = start

    def allows(self, event: str) -> bool:
        return (self.state, event) in self._table

    def move(self, event: str) -> None:
        """Raises IllegalMove if the table has no such move."""
        next_state = self._table.get((self.state, event))
        if next_state is None:
            legal = [name for state, name in self._table if state is self.state] or ["nothing"]
            told = " → ".join(self._story) or "just made"
            name = f"{self._name:x}" if isinstance(self._name, int) else self._name
            raise IllegalMove(
                f"{self._what} {name} is {self.state.name} and cannot take {event!r}; "
                f"it takes {', '.join(legal)}. So far: {told}"
            )
        self._story.append(event)
        self.state = next_state
