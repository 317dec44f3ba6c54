"""What every error has that a user mends by changing the request."""

import difflib
from collections.abc import Iterable


class Refusal(ValueError):
    """A request that breaks a rule; nothing was started.

    The text says the value, the rule, what is allowed, and the next step. Commands print it and
    exit 2.
    """


def did_you_mean(name: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> str:
    """`; did you mean MatMul?`, empty if nothing known is near."""
    near = difflib.get_close_matches(name, list(known), most, cutoff)
    return f"; did you mean {', '.join(near)}?" if near else ""
