"""What a trace could not give, and what is refused outright."""

from collections.abc import Iterable
from dataclasses import dataclass


class TraceError(Exception):
    """A request that cannot be met: the file is no trace, or no trace has this id or span.

    The text is ready for people (what, the rule, the next step); commands exit with 2. `told` says
    the same for pages, which translate it: what is refused, then the reasons.
    """

    def __init__(self, text: str, told: "tuple[Problem, ...]" = ()) -> None:
        super().__init__(text)
        self.told = told


class NoStep(TraceError):
    """The trace holds no step of this number; the text has numbers of the trace and this one."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something missing or mended in a trace that could still be opened.

    `kind` is a key of PROBLEMS, which pages translate by; `text` says it in English; `count` is how
    many spans, strings or bytes; `where` is the file or span it concerns.
    """

    kind: str
    text: str
    count: int = 1
    where: str = ""
    detail: str = ""


PROBLEMS = {
    "torn": "{where} is cut off: its last {count:,} bytes could not be read",
    "damaged": "{where} is damaged: {count:,} bytes could not be read",
    "cut": "{where} is cut off: {count:,} whole events were read, the last at {detail} s",
    "line": "{count:,} lines of {where} could not be read as spans",
    "escapes": "{count:,} strings of {where} held illegal escapes; "
    "each backslash was kept as it is",
    "control": "{count:,} strings of {where} held control characters, shown as �",
    "utf8": "{count:,} bytes of {where} were not UTF-8, shown as �",
    "token": "{count:,} bare words (inf, nan, N/A) of {where} are shown as not available",
    "skipped": "{count:,} events of {where} are no spans and were not read: {detail}",
    "invalid": "{count:,} spans of {where} had no usable times and were left out",
    "overlap": "{count:,} spans of {where} overlap another of their lane without nesting; "
    "they got rows of their own",
    "orphan": "{count:,} spans name a parent that is not in this trace; the first is {where}",
    "cycle": "{count:,} spans were their own ancestors; the circle was cut at {where}",
    "time-unit": "the median span of {where} lasts {detail}, which is unusual: "
    "if its times are not µs, say so with --time-unit",
    "manifest": "{where} cannot be read: {detail}",
    "missing-task": "{where} has no span file",
    "segment": "{where} could not be used, so the span files were read instead: {detail}",
    "graph": "the graph at stage {where} is incomplete: {detail}",
    "count": "{count:,} recorded spans were not written",
    "empty": "{where} is empty",
    "format": "{where} is of no format known here; known are {detail}",
    "nothing": "nothing in {where} could be read as a trace: {detail}",
    "not-json": "{where} looks like OTLP JSON but ends too soon or is not JSON",
    "document": "{where} is one document of more than {detail} and must be read whole; write one "
    "document a line (.jsonl), which is read piece by piece",
    "not-protobuf": "{where} is not OTLP protobuf, or is cut off",
    "many": "{where} holds more than {count:,} spans; these were read, the others were not. Look "
    "at a part: vizdist import {where} -o part.trace --between 0-10",
    "suffix": "{where} is no trace file by its name; one ends with {detail}",
    "inflated": "{where} holds more than {count} MiB, which is the limit for uploads; "
    "open it from disk instead: vizdist serve FILE",
    "uploads": "this server holds {count} uploads already; open {where} from disk instead: "
    "vizdist serve FILE",
    "body": "an upload is at most {count} MiB; compress {where}, or open it from disk: "
    "vizdist serve FILE",
    "room": "{count:,} steps were not recorded: there was no more room for the trace",
}


def problem(kind: str, count: int = 1, where: str = "", detail: str = "") -> Problem:
    text = PROBLEMS[kind].format(count=count, where=where, detail=detail)
    return Problem(kind, text, count, where, detail)


def refusal(
    kind: str, where: str, detail: str = "", reasons: Iterable[Problem] = (), count: int = 1
) -> TraceError:
    """Why a file cannot be opened at all."""
    found = tuple(reasons)
    main = problem(kind, count, where, detail or "; ".join(reason.text for reason in found))
    return TraceError(main.text, (main, *found))
