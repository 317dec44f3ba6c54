"""One sentence about a run: a template with values, the page that shows it, and its proof."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MOST_NAMED = 2  #: of a list in a sentence


@dataclass(frozen=True, slots=True)
class Sentence:
    """`analysis.<key>` of a catalogue, filled with `values`; `page` shows it, `proof`: span ids.

    `source` names what it was read from: columns, an attribute, or a part of the manifest.
    """

    key: str
    values: Mapping[str, object] = field(default_factory=dict)
    page: str = ""
    proof: tuple[int, ...] = ()
    step: int = 0
    source: str = "start end"


def some_of(names: Sequence[str]) -> tuple[str, ...]:
    """The first ones, as a value of a sentence, and a sign if there are more."""
    return (*names[:MOST_NAMED], "…") if len(names) > MOST_NAMED else tuple(names)
