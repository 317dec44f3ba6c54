"""Reference: words, span kinds, commands and keys of this version, from its own sources.

The glossary is the catalogue's, kinds are the schema's, commands what both parsers say (written by
tests/pages/commands.py and held current by a test), keys those of the help dialog.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

import vizdist.i18n
from tracer.model.schema import COMMON_ATTRIBUTES, SCHEMA_VERSION, SPAN_KINDS, SpanKind
from vizdist.components.callbacks import clientside
from vizdist.components.cards import icon, rich, says
from vizdist.components.help import ALWAYS, OF_PAGE, RUN, Keys
from vizdist.components.view import View
from vizdist.i18n import Lang, catalogue, t
from vizdist.store.library import Library

NAME = "reference"
PATH = "/reference"
SECTIONS = ("words", "kinds", "commands", "keys")
ENGLISH: dict[str, Any] = {"lang": "en"}  #: told in English whatever the language of the page


def layout(_library: Library, view: View) -> Component:
    lang = view.lang
    made = (_words(lang), _kinds(lang), _commands(lang), _keys(lang))
    none: dict[str, Any] = {"data-none": t("reference.none_found", lang)}
    body = [_section(name, parts, lang) for name, parts in zip(SECTIONS, made, strict=True)]
    head = [html.H1(t("reference.title", lang)), html.P(t("reference.lead", lang))]
    return html.Div(
        [
            html.Div(head, className="reference-head"),
            _contents(lang),
            html.Div(body, className="reference-body", **none),
            dcc.Store(id="reference-shown"),
        ],
        id="reference",
        className="reading reference",
    )


def _contents(lang: Lang) -> Component:
    links = [html.A(t(f"reference.section.{name}", lang), href=f"#{name}") for name in SECTIONS]
    return html.Nav(links, className="reference-nav", **says(t("reference.contents", lang)))


def _section(name: str, parts: Iterable[Component], lang: Lang) -> Component:
    note = t(f"reference.note.{name}", lang, version=SCHEMA_VERSION)
    heading = html.H2([t(f"reference.section.{name}", lang), html.Small(note)], id=name)
    return html.Section([heading, *parts], className="card")


def _entry(anchor: str, title: Any, body: Any, lang: Lang, *, plain: str = "") -> Component:
    """A term and what is said of it; its name is a link to itself."""
    name = html.A(
        [title, icon("link")],
        href=f"#{anchor}",
        **says(t("reference.link_to", lang, name=plain or title)),
    )
    return html.Div([html.Dt(name), html.Dd(body)], id=anchor, className="entry")


def _list(title: str, entries: list[Component]) -> Component:
    return html.Div([html.H3(title), html.Dl(entries)], className="reference-group")


# ---- words ----


def _words(lang: Lang) -> list[Component]:
    """The terms of the glossary by group; a term is the bold beginning of its text."""
    texts = [key.split(".")[1:] for key in catalogue("en") if key.startswith("glossary.")]
    groups = [key[1] for key in texts if key[0] == "groups"]
    return [
        _list(
            t(f"glossary.groups.{group}", lang),
            [_word(f"{group}.{key[1]}", lang) for key in texts if key[0] == group],
        )
        for group in groups
    ]


def _word(key: str, lang: Lang) -> Component:
    [term, *said] = rich(f"glossary.{key}", lang)
    title = str(term.children if isinstance(term, html.B) else term)
    return _entry(f"word-{key.partition('.')[2]}", title, said, lang)


# ---- span kinds ----


def _kinds(lang: Lang) -> list[Component]:
    common = [_attributes(COMMON_ATTRIBUTES, lang)]
    entries = [_kind(kind, lang) for kind in SPAN_KINDS.values()]
    title = t("reference.kind.common", lang)
    return [html.Dl([*entries, _entry("kind-any", title, common, lang)])]


def _kind(kind: SpanKind, lang: Lang) -> Component:
    """What it is, how it lies to its parent, which lane it is drawn on, what it carries."""
    told = _told_in_chinese().get(kind.name) if lang == "zh" else None
    sentence = html.P(told) if told else html.P(kind.says, **ENGLISH)
    facts = [
        t(f"reference.kind.{kind.relation}", lang),
        *([t("reference.kind.lane", lang, lane=kind.lane)] if kind.lane else []),
        *([kind.otel] if kind.otel != "INTERNAL" else []),
    ]
    body: list[Component] = [sentence, html.P(" · ".join(facts), className="hint")]
    if kind.attributes:
        body.append(_attributes(kind.attributes, lang))
    return _entry(f"kind-{kind.name}", html.Code(kind.name), body, lang, plain=kind.name)


def _attributes(attributes: Mapping[str, str], lang: Lang) -> Component:
    rows = [
        html.Li(
            [
                html.Code(name),
                *([html.Span(t("reference.unit", lang, unit=unit))] if _is_unit(unit) else []),
            ]
        )
        for name, unit in attributes.items()
    ]
    return html.Ul(rows, className="attributes", **says(t("reference.kind.attributes", lang)))


def _is_unit(unit: str) -> bool:
    return unit not in ("", "1")


@cache
def _told_in_chinese() -> Mapping[str, str]:
    file = Path(vizdist.i18n.__file__).parent / "kinds_zh.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


# ---- commands ----


@cache
def _known_commands() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        Path(__file__).with_name("commands.json").read_text(encoding="utf-8")
    )
    return found


def _commands(lang: Lang) -> list[Component]:
    return [html.Dl([_command(one, lang) for one in _known_commands()])]


def _command(command: Mapping[str, Any], lang: Lang) -> Component:
    name = command["name"]
    anchor = f"command-{name.replace(' ', '-')}"
    flags = [_flag(anchor, one) for one in command["arguments"]]
    body: list[Component] = [html.P(command["says"], **ENGLISH)]
    if flags:
        body.append(html.Table(html.Tbody(flags), className="flags", **ENGLISH))
    body += [html.Code(example, className="example") for example in command["examples"]]
    return _entry(anchor, html.Code(name), body, lang, plain=name)


def _flag(anchor: str, argument: Mapping[str, Any]) -> Component:
    """A row a flag; its own anchor, so that a flag can be pointed at."""
    first = argument["names"].split(", ")[-1].strip("-")
    takes = [" ", html.Var(argument["takes"])] if argument["takes"] else []
    parts: list[Any] = [argument["names"], *takes]
    head = html.Th(html.Code(parts), scope="row")
    return html.Tr([head, html.Td(argument["says"])], id=f"{anchor}-{first}")


# ---- keys ----


def _keys(lang: Lang) -> list[Component]:
    pages = [(t(f"shell.pages.{page}", lang), keys) for page, keys in OF_PAGE.items()]
    shared = [(t(f"reference.keys.{name}", lang), keys) for name, keys in _SHARED.items()]
    return [_key_list(title, keys, lang) for title, keys in (*pages, *shared)]


_SHARED: Mapping[str, Keys] = {"run": RUN, "always": ALWAYS}


def _key_list(title: str, keys: Keys, lang: Lang) -> Component:
    rows = [
        html.Div(
            [html.Dt([html.Kbd(key) for key in one]), html.Dd(t(f"shell.help.{name}", lang))],
            className="entry",
        )
        for one, name in keys
    ]
    return html.Div([html.H3(title), html.Dl(rows)], className="reference-group keys")


def register(app: Dash, _library: Library) -> None:
    """Links are anchors; the browser goes to the one that the address names."""
    shown = Output("reference-shown", "data")
    clientside(app, "reference.mjs", "show", shown, Input("route", "data"))
