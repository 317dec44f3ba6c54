"""Where a claim is proved: a page of the run, in the step, with what proves it selected."""

from collections.abc import Iterable
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from vizdist.components.view import View

MOST = 64  #: spans that an element names as its proof


def proof(view: View, page: str, step: int = 0, selection: str = "") -> str:
    """The path of a page; `selection` is `span:…`, `node:…`, `key:…` or "", `step` 0 for any."""
    query = {"step": str(step)} if step else {}
    if selection:
        query["sel"] = selection
    return f"/t/{view.trace}/{page}" + (f"?{urlencode(query, safe=':/')}" if query else "")


def span_id(span: int) -> str:
    """What selects a span by its number; empty for 0, which is none."""
    return f"span:{span:016x}" if span else ""


def evidence(spans: Iterable[int], source: str = "") -> dict[str, Any]:
    """Attributes of an element that claims something: the spans that prove it, and its source."""
    ids = " ".join(f"{span:016x}" for span in islice(filter(None, spans), MOST))
    return {"data-spans": ids or None, "data-source": source or None}
