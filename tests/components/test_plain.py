"""Few components for Dash, and yet every element on the page."""

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from vizdist.components.markup import markup
from vizdist.components.plain import Plain, folded


def unfolded(part: Any) -> Any:
    """The elements that a tree is drawn as, as components again."""
    if isinstance(part, Plain):
        tree: list[Any] = vars(part)["tree"]
        return [unfolded(one) for one in tree]
    if isinstance(part, list):
        name, attributes, *children = part
        make = getattr(html, name.capitalize())
        return make([unfolded(one) for one in children], **attributes)
    return part


def test_what_no_callback_is_tied_to_is_one_component() -> None:
    data: dict[str, Any] = {"data-go": "/a?b=1&<i>"}
    part = html.Div([html.B("5 ms", **data), " of ", None, html.Span(["a", 3])], className="facts")
    found = folded(part, {"other"})
    assert isinstance(found, Plain)
    assert markup(unfolded(found)) == markup(part)


def test_a_callbacks_place_stays_and_its_neighbours_are_drawn_together() -> None:
    place = html.Div([html.B("now"), "here"], id="place")
    part = html.Main([html.H1("title"), "text", place, html.Hr(), html.P("end")], className="page")
    found: Any = folded(part, {"place"})
    assert isinstance(found, html.Main)
    before, kept, after = vars(found)["children"]
    assert markup([unfolded(before), unfolded(after)]) == "<h1>title</h1>text<hr><p>end</p>"
    assert isinstance(kept, html.Div)
    assert isinstance(vars(kept)["children"], Plain)
    assert vars(part)["children"][2] is place, "the page's own components are as they were"


def test_charts_and_stores_stay() -> None:
    chart = dcc.Graph(id="chart")
    card = html.Section([html.H2("loss"), html.Div(chart), dcc.Store(id="kept")])
    found: Any = folded([card, html.P("note")], set())
    assert isinstance(found[1], Plain)
    heading, around, store = vars(found[0])["children"]
    assert isinstance(heading, Plain)
    assert vars(around)["children"] is chart
    assert isinstance(store, dcc.Store)


def test_a_field_that_no_callback_reads_is_an_element() -> None:
    field = dcc.Input(id="words", type="search", placeholder="find")
    tree: Any = vars(folded(html.Label(["find", field]), set()))["tree"]
    attributes = {"id": "words", "type": "search", "placeholder": "find"}
    assert tree == [["label", {}, "find", ["input", attributes]]]
    assert isinstance(folded(field, {"words"}), Component)
    assert folded(field, {"words"}) is field


def test_texts_are_left_as_they_are() -> None:
    assert folded("5 ms", set()) == "5 ms"
    assert folded(["a", "b"], set()) == ["a", "b"]
    assert folded([], set()) == []
    assert folded(None, set()) is None
