"""Elements that no callback is tied to, drawn together as one component.

Dash keeps a record of each component and asks all of them at every change of any store, which is
most of what opening a page costs. A page needs that for a handful of its elements.
"""

from collections.abc import Container
from copy import copy
from itertools import groupby
from typing import Any, cast

from dash.development.base_component import Component

#: What is an element of HTML, by the namespace and type that Dash gives it.
_HTML = "dash_html_components"
_FIELD = ("dash_core_components", "Input")


class Plain(Component):
    """Texts and elements, each as [name, attributes, *children]; assets/plain.js draws them."""

    _children_props: list[str] = []  # noqa: RUF012
    _base_nodes = ["children"]  # noqa: RUF012
    _namespace = "vizdist"
    _type = "Plain"
    _prop_names = ["tree"]  # noqa: RUF012
    _valid_wildcard_attributes: list[str] = []  # noqa: RUF012
    available_properties = _prop_names
    available_wildcard_properties: list[str] = []  # noqa: RUF012

    def __init__(self, tree: list[Any]) -> None:
        super().__init__(tree=tree)  # type: ignore[no-untyped-call]


def folded(children: Any, tied: Container[str]) -> Any:
    """The same children, with those that hold no id of `tied` drawn together."""
    if not isinstance(children, Component | list | tuple):
        return children
    return _together([_folded(part, tied) for part in _listed(children)])


def _together(parts: list[Any]) -> Any:
    kept: list[Any] = []
    for _, run in groupby(parts, lambda part: isinstance(part, Component)):
        same = [*run]
        has_elements = any(isinstance(part, list) for part in same)
        kept += [Plain(same)] if has_elements else same
    return kept[0] if len(kept) == 1 else kept


def _folded(part: Any, tied: Container[str]) -> Any:
    """A text or element as it stands in `Plain`, or a component that Dash must know."""
    if not isinstance(part, Component):
        return part
    told: dict[str, Any] = cast("Any", part).to_plotly_json()
    attributes: dict[str, Any] = dict(told["props"])
    children = attributes.pop("children", None)
    parts = [_folded(one, tied) for one in _listed(children)]
    is_free = attributes.get("id") not in tied
    if is_free and (name := _element(told)) and not any(isinstance(p, Component) for p in parts):
        return [name, attributes, *parts]
    if children is None:
        return part
    outer: Any = copy(part)
    outer.children = _together(parts)
    return outer


def _element(told: dict[str, Any]) -> str:
    """The name of the element; "" for a component that is more than that."""
    kind = told["namespace"], told["type"]
    return told["type"].lower() if _HTML in kind or kind == _FIELD else ""


def _listed(children: Any) -> list[Any]:
    several = children if isinstance(children, list | tuple) else [children]
    return [one for one in several if one is not None]
