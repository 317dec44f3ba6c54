"""What can be selected: one thing, the same in every view and in the URL."""

from typing import TypedDict

#: kinds of selections whose ids are those of spans, and say nothing to a reader
BY_SPANS = ("span", "rpc", "stall")


class Selection(TypedDict):
    """What the store `sel` holds and the URL says: `span:…`, `node:…`, `key:…`, and so on."""

    type: str
    id: str
