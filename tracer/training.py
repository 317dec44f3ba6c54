"""The fit loop of one client, and what it measures: loss at each step, accuracy at the end."""

import re
from dataclasses import dataclass


class TracePolicyError(ValueError):
    """`--trace` with a value that cannot be read."""


@dataclass(frozen=True, slots=True)
class TracePolicy:
    """Which steps are recorded: `all`, `none`, `every:N` or `A-B` (from 1, both ends)."""

    text: str = "all"

    def __post_init__(self) -> None:
        if self.text not in ("all", "none") and not re.fullmatch(
            r"every:[1-9]\d*|[1-9]\d*-[1-9]\d*", self.text
        ):
            raise TracePolicyError(
                f"--trace {self.text}: write all, none, every:N (every:10) or A-B (5-8)"
            )

    def samples(self, step: int) -> bool:
        if self.text in ("all", "none"):
            return self.text == "all"
        if self.text.startswith("every:"):
            return (step - 1) % int(self.text[6:]) == 0
        first, _, last = self.text.partition("-")
        return int(first) <= step <= int(last)
