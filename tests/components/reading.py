"""What components say, and which of them are of a kind."""

from dash.development.base_component import Component


def found(part: object, kind: str) -> list[Component]:
    """The components whose class is `kind`."""
    if isinstance(part, Component):
        own = [part] if kind in str(getattr(part, "className", "")).split() else []
        return [*own, *found(getattr(part, "children", None), kind)]
    if isinstance(part, list | tuple):
        return [one for child in part for one in found(child, kind)]
    return []


def text(part: object) -> str:
    if isinstance(part, Component):
        return text(getattr(part, "children", None))
    if isinstance(part, list | tuple):
        return "".join(map(text, part))
    return "" if part is None else str(part).replace("\u00a0", " ")
