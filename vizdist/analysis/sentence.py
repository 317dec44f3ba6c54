"""One sentence about a run: a template with values, the page that shows it, and its proof."""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
