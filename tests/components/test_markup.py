"""Components as text: what an attribute is called, what is escaped, what is left out."""

from typing import Any

from dash import dcc, html

from vizdist.components.markup import markup


def test_text_stays_text_whatever_it_holds() -> None:
    data: dict[str, Any] = {"data-go": "/a?b=1&c=2"}
    part = html.Div("</script><b>&", title='"><img>', **data)
    assert markup(part) == (
        '<div title="&quot;&gt;&lt;img&gt;" data-go="/a?b=1&amp;c=2">'
        "&lt;/script&gt;&lt;b&gt;&amp;</div>"
    )


def test_attributes_have_the_names_of_html() -> None:
    style = {"flexGrow": 2, "--heat": "5%"}
    part = html.Label(
        html.Br(), className="a b", htmlFor="x", tabIndex=-1, hidden=True, style=style
    )
    text = markup(part)
    assert text.startswith("<label ")
    assert text.endswith("><br></label>")
    for one in ('class="a b"', 'for="x"', " hidden", 'tabindex="-1"', "flex-grow:2;--heat:5%"):
        assert one in text


def test_what_needs_dash_is_left_out() -> None:
    assert markup(html.P(["a", None, dcc.Store(id="s"), dcc.Graph(id="g"), 3])) == "<p>a3</p>"
