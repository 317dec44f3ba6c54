"""What can be selected: one thing, the same in every view and in the URL."""

from typing import TypedDict


class Selection(TypedDict):
    """What the store `sel` holds and the URL says: `span:…`, `node:…`, `key:…`, `edge:…`, `rpc:…`."""

    type: str
    id: str
