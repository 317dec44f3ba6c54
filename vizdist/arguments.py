"""What the words of a command line mean, and how a wrong one is answered."""

import argparse
import difflib
import re
from collections.abc import Iterator
from typing import NoReturn

MOST_SECONDS = 10**9  #: of a stretch of a trace, about 32 years


class RequestError(Exception):
    """What was asked for cannot be: told in one line, exit code 2."""


class Parser(argparse.ArgumentParser):
    """argparse, but a slip of the pen gets the nearest match."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message}{self._nearest(message)}\nSee {self.prog} --help")

    def _nearest(self, message: str) -> str:
        flags = message.partition("unrecognized arguments: ")[2]
        wrong = flags or message.partition("choice: ")[2]
        word = wrong.split()[0].strip("'").partition("=")[0] if wrong else ""
        known = [name for name in self._names() if name.startswith("-") == bool(flags)]
        match = difflib.get_close_matches(word, known, 1, 0.5)
        return f"\nDid you mean {match[0]}?" if match else ""

    def _names(self) -> Iterator[str]:
        """Every flag and choice, those of subcommands too."""
        for action in self._actions:
            yield from action.option_strings
            yield from map(str, action.choices or ())
            if isinstance(action.choices, dict):
                for parser in action.choices.values():
                    yield from parser._names()


def steps(text: str) -> range:
    """`A-B` or one number, both ends included."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of steps such as 3-9, or one step")
    found = range(int(first), int(last or first) + 1)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is empty: the first step comes first")
    return found


def seconds(text: str) -> tuple[float, float]:
    """`A-B`, seconds."""
    found = re.fullmatch(r"(\d+\.?\d*)-(\d+\.?\d*)", text, re.ASCII)
    first, last = map(float, found.groups() if found else (1, 0))
    if first > last:
        raise argparse.ArgumentTypeError(f"{text!r} is no stretch of seconds such as 2.5-3")
    if last > MOST_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} ends after more than {MOST_SECONDS:,} seconds; no trace is as long"
        )
    return first, last
