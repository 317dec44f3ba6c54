"""What a trace could not give, and what is refused outright."""

from dataclasses import dataclass


class TraceError(Exception):
    """A request that cannot be met: the file is no trace, or no trace has this id or span.

    The text is ready for people (what, the rule, the next step); commands exit with 2.
    """


@dataclass(frozen=True, slots=True)
class Problem:
    """Something missing or mended in a trace that could still be opened.

    `kind` is a stable key (`torn`, `repaired`, `orphan`, …) that pages translate by; `text` says it in
    English; `count` is how many spans, strings or bytes; `where` is the file or span it concerns.
    """

    kind: str
    text: str
    count: int = 1
    where: str = ""
