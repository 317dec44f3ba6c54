"""What can be selected: one thing, the same in every view and in the URL."""

from typing import TypedDict


class Selection(TypedDict):
    """What the store `sel` holds and the URL says: `span:…`, `node:…`, `key:…`, and so on."""

    type: str
    id: str
