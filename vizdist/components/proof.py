"""Where a claim is proved: a page of the run, in the step, with what proves it selected."""

from urllib.parse import urlencode

from vizdist.components.view import View


def proof(view: View, page: str, step: int = 0, selection: str = "") -> str:
    """The path of a page; `selection` is `span:…`, `node:…`, `key:…` or "", `step` 0 for any."""
    query = {"step": str(step)} if step else {}
    if selection:
        query["sel"] = selection
    return f"/t/{view.trace}/{page}" + (f"?{urlencode(query, safe=':/')}" if query else "")


def span_id(span: int) -> str:
    """What selects a span by its number; empty for 0, which is none."""
    return f"span:{span:016x}" if span else ""
