"""Components as HTML text, for a page that no Dash runs on."""

import re
from collections.abc import Mapping
from html import escape
from typing import Any, cast

from dash.development.base_component import Component

_HTML = "dash_html_components"
_NAMES = {"className": "class", "htmlFor": "for"}
_VOID = frozenset({"br", "hr", "img", "input", "wbr"})
_INNER_CAPITAL = re.compile(r"(?<=[a-z])[A-Z]")


def markup(part: Any) -> str:
    """Text stays text whatever it holds. Stores and charts, which need Dash, are left out."""
    if part is None:
        return ""
    if isinstance(part, list | tuple):
        return "".join(map(markup, part))
    if not isinstance(part, Component):
        return escape(str(part))
    told: dict[str, Any] = cast("Any", part).to_plotly_json()
    if told["namespace"] != _HTML:
        return ""
    props = dict(told["props"])
    children = markup(props.pop("children", None))
    name = told["type"].lower()
    attributes = "".join(_attribute(*item) for item in props.items())
    return f"<{name}{attributes}>" + ("" if name in _VOID else f"{children}</{name}>")


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = _NAMES.get(name, name).lower()
    if value is True:
        return f" {name}"
    text = _style(value) if name == "style" else str(value)
    return f' {name}="{escape(text)}"'


def _style(rules: Mapping[str, Any]) -> str:
    """`flexGrow` is `flex-grow`; variables keep their names."""
    kebab = {_INNER_CAPITAL.sub(lambda m: f"-{m[0].lower()}", k): v for k, v in rules.items()}
    return ";".join(f"{name}:{value}" for name, value in kebab.items())
