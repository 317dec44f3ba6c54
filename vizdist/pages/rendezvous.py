"""Rendezvous & RPC: who came first to each mailbox of a step, who called whom, what caches knew."""

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from vizdist.analysis.bytes_moved import Pair
from vizdist.analysis.cache_strips import cache_strips
from vizdist.analysis.call_sequence import CallSequence, call_sequence
from vizdist.analysis.collectives import of_step
from vizdist.analysis.lit_keys import LitKeys, lit_keys
from vizdist.analysis.mailbox import Mailbox, Traffic, Transfer, crosses, mailbox
from vizdist.analysis.mechanisms.calls import Method, methods_of, methods_of_run
from vizdist.analysis.selection import Selection
from vizdist.analysis.steps import clients_of, shown_step
from vizdist.components.cache_strips import cache_strips_table
from vizdist.components.call_table import call_table
from vizdist.components.callbacks import callback, clientside
from vizdist.components.cards import Children, bare, rich, says
from vizdist.components.link_matrix import link_matrices
from vizdist.components.mailbox_list import collectives_note, mailbox_list
from vizdist.components.toolbar import choice
from vizdist.components.view import Live, Route, View, view_of
from vizdist.figures.call_lines import besides, call_lines, time_text
from vizdist.figures.mailbox_rows import ORDERS, Look, short_titles
from vizdist.figures.shared_uses import NOT_KNOWN, Uses, shared_uses, uses_of
from vizdist.i18n import Lang, t
from vizdist.store.library import Library
from vizdist.store.trace import StepInfo, Trace

NAME = "rendezvous"
PATH = "/t/{trace}/rendezvous"
FACES: Mapping[str, tuple[str, ...]] = {
    "links": ("bytes", "wait"),
    "calls": ("sequence", "step", "run"),
}


def layout(library: Library, view: View) -> Component:
    trace = library.open(view.trace)
    why = _nothing(trace)
    if why:
        title, next_step = (t(f"rendezvous.{why}{part}", view.lang) for part in ("", "_next"))
        return bare(t("rendezvous.title", view.lang, trace=trace.title), title, next_step)
    lang = view.lang
    mail = _card("mail", [*_tools(lang), html.Div(id="rendezvous-mail", className="mail")], lang)
    parts = [
        html.Div([html.H1(id="rendezvous-head"), html.Span(id="rendezvous-clients")],
                 className="head"),
        html.Div([mail, _card("caches", html.Div(id="rendezvous-caches"), lang)], className="wide"),
        html.Div([_card("links", html.Div(id="rendezvous-links"), lang),
                  _card("calls", _calls(lang), lang)], className="narrow"),
        *(dcc.Store(id=f"rendezvous-{name}") for name in ("look", "task", "lit", "lines", "drawn")),
    ]  # fmt: skip
    return html.Div(parts, id="rendezvous-page", className="reading rendezvous")


def _nothing(trace: Trace) -> str:
    """Why the page has nothing to show; "" where it has."""
    if not trace.steps:
        return "no_steps"
    return "" if crosses(trace) else "nothing_crossed"


def _card(name: str, body: Children, lang: Lang) -> Component:
    """A titled card; its faces, where it has several, are chosen beside the title."""
    title = html.H2([t(f"rendezvous.{name}.title", lang), html.Small(id=f"rendezvous-{name}-note")])
    faces = FACES.get(name, ())
    chosen = [choice(face, t(f"rendezvous.{name}.{face}", lang), chosen=face == faces[0])
              for face in faces]  # fmt: skip
    group = says(t(f"rendezvous.{name}.faces", lang), data_faces=name) if faces else {}
    choices = [html.Div(chosen, className="segments", role="radiogroup", **group)] if faces else []
    shown: dict[str, Any] = {"data-shown": faces[0]} if faces else {}
    head = html.Div([title, *choices], className="card-head")
    return html.Section([head, html.Div(body, className="card-body")], className=f"card {name}",
                        **shown)  # fmt: skip


def _tools(lang: Lang) -> list[Component]:
    """Words to find keys by, and the order of the rows; of use where there are many."""
    label = t("rendezvous.mail.find", lang)
    field = dcc.Input(id="rendezvous-words", type="search", placeholder=label, autoComplete="off")
    orders = [html.Option(t(f"rendezvous.order.{name}", lang), value=name) for name in ORDERS]
    select = html.Select(orders, id="rendezvous-order", **says(t("rendezvous.mail.order", lang)))
    find = html.Label([html.Span(label, className="unseen"), field], className="finder")
    order = html.Label([html.Span(t("rendezvous.mail.order", lang)), select], className="client")
    return [html.Div([find, order], className="mail-tools")]


def _calls(lang: Lang) -> list[Component]:
    picture = says(t("rendezvous.calls.picture", lang), data_face="sequence", data_scrolls="")
    tables: list[dict[str, Any]] = [
        {"data-face": face, "data-scrolls": ""} for face in FACES["calls"][1:]
    ]
    return [
        html.Div(id="rendezvous-sequence", className="sequence", role="group", **picture),
        *(html.Div(id=f"rendezvous-{shown['data-face']}", tabIndex=0, **shown) for shown in tables),
    ]


def _request(trace: Trace, step: int | None, task: str | None) -> StepInfo | None:
    """The step that is looked at; where several clients run one of its number, of one of them."""
    number = shown_step(trace, step)
    if number is None:
        return None
    tasks = clients_of(trace, number)
    return trace.step(number, task if task in tasks else tasks[0])


def headline(found: Mailbox, step: StepInfo, lang: Lang) -> Children:
    """How many values crossed, how many were waited for, and which one longest.

    Pieces of collectives are told only where nothing else crossed, or if they never came; a control
    edge if it was waited for longer than all of them.
    """
    lone = all(row.is_piece for row in found.rows if row.is_value)

    def is_told(row: Transfer) -> bool:
        return row.first == "nobody" or (row.is_value and row.is_piece == lone)

    asked = [row for row in found.rows if row.recv and is_told(row)]
    values: dict[str, object] = {"step": f"{step.number:,}", "count": len(asked)}
    lost = sum(row.first == "nobody" for row in asked)
    late = sum(row.first == "receiver" for row in asked)
    if not asked:
        return rich("rendezvous.head.none", lang, **values)
    if lost:
        return rich("rendezvous.head.lost", lang, lost=lost, **values)
    longest = max(asked, key=lambda row: row.wait_ns)
    beside = _signal(found, longest.wait_ns if late else 0, lang)
    if not late:
        return [*rich("rendezvous.head.early", lang, **values), *beside]
    key = f"rendezvous.head.{'pieces' if lone else 'late'}"
    return [*rich(key, lang, late=late, **values, **_waited(found, longest)), *beside]


def _waited(found: Mailbox, row: Transfer) -> dict[str, str]:
    task = short_titles(found.rows)[row.target]
    return {"tensor": row.tensor, "task": task, "time": time_text(row.wait_ns)}


def _signal(found: Mailbox, longest_ns: int, lang: Lang) -> list[Component | str]:
    """The control edge that was waited for longest, if that was longer than this."""
    signals = [row for row in found.rows if row.is_control and row.first == "receiver"]
    if not signals or (most := max(signals, key=lambda row: row.wait_ns)).wait_ns <= longest_ns:
        return []
    return [" ", *rich("rendezvous.head.signal", lang, **_waited(found, most))]


def note_of_keys(found: Mailbox, lang: Lang, uses: Uses = NOT_KNOWN) -> str:
    """All keys, how many of them carried no value, and how many would be, were none shared."""
    dead = sum(row.state == "dead" for row in found.rows)
    signals = sum(not row.is_value for row in found.rows) - dead
    keys = t("rendezvous.mail.count", lang, count=len(found.rows))
    alone = sum(uses_of(row.key, uses) for row in found.rows)
    unshared = [t("rendezvous.mail.unshared", lang, count=alone)] if alone > len(found.rows) else []
    comma = t("rendezvous.calls.comma", lang)
    return comma.join([keys, *besides(dead, signals, lang), *unshared])


def _traffic(found: Mailbox) -> dict[Pair, Traffic]:
    titles = short_titles(found.rows)
    return {(titles[a], titles[b]): one for (a, b), one in found.traffic.items()}


def _counted(found: CallSequence | None, lang: Lang) -> str:
    return t("rendezvous.calls.count", lang, count=len(found.calls)) if found else ""


def _no_call(trace: Trace, lang: Lang) -> str:
    """Why a step has no call: it made none, or no step does."""
    return t(f"rendezvous.calls.{'none_here' if methods_of_run(trace) else 'none'}", lang)


def _choice_of_client(trace: Trace, step: StepInfo, lang: Lang) -> list[Component]:
    tasks = clients_of(trace, step.number)
    if len(tasks) < 2:
        return []
    options = [html.Option(task, value=task, selected=task == step.task) for task in tasks]
    word = t("rendezvous.client", lang)
    select = html.Select(options, id="rendezvous-client", **says(word))
    return [html.Label([html.Span(word), select], className="client")]


def register(app: Dash, library: Library) -> None:
    now = [Input("step", "data"), Input("rendezvous-task", "data"), Input("live", "data")]
    route = State("route", "data")
    places = [Output(f"rendezvous-{name}", "children") for name in ("head", "mail", "mail-note")]

    @callback(app, *places, *now, Input("rendezvous-look", "data"), route)
    def show_mail(
        step: int | None, task: str | None, _live: Live | None, look: Look | None, route: Route
    ) -> tuple[Any, ...]:
        view = view_of(route)
        trace = library.open(view.trace)
        request = _request(trace, step, task)
        if request is None:
            return [], [], ""
        found = mailbox(trace, request)
        met = collectives_note(found, len(of_step(trace, request.number)), request.task, view)
        uses = shared_uses(trace, request)
        rows = [*met, *mailbox_list(found, look or {}, view.lang, uses)]
        return headline(found, request, view.lang), rows, note_of_keys(found, view.lang, uses)

    names = ("clients", "links", "caches", "step", "run", "calls-note")
    filled = [Output(f"rendezvous-{name}", "children") for name in names]

    @callback(app, *filled, Output("rendezvous-lines", "data"), *now, route)
    def show_step(
        step: int | None, task: str | None, _live: Live | None, route: Route
    ) -> tuple[Any, ...]:
        view = view_of(route)
        trace, lang = library.open(view.trace), view.lang
        request = _request(trace, step, task)
        if request is None:
            return [], [], [], [], [], "", None
        found = call_sequence(trace, request)
        return (
            _choice_of_client(trace, request, lang),
            link_matrices(_traffic(mailbox(trace, request)), lang),
            cache_strips_table(cache_strips(trace, request), request.number, lang),
            call_table(_methods(trace, request), lang),
            call_table(methods_of_run(trace), lang),
            _counted(found, lang),
            call_lines(found, lang) if found else {"none": _no_call(trace, lang)},
        )

    @callback(app, Output("rendezvous-lit", "data"), Input("sel", "data"), now[0], route)
    def show_lit(sel: Selection | None, step: int | None, route: Route) -> LitKeys:
        trace = library.open(view_of(route).trace)
        return lit_keys(trace, sel, shown_step(trace, step))

    task = ("rendezvous-task", "data")
    address = Input("url", "search")
    clientside(app, "rendezvous.mjs", "readTask", Output(*task), address, State(*task))
    drawn = Output("rendezvous-drawn", "data")  # so that Dash asks only where the page is
    shown = [Input(f"rendezvous-{name}", "data") for name in ("lines", "lit")]
    clientside(app, "rendezvous.mjs", "show", drawn, *shown)


def _methods(trace: Trace, request: StepInfo) -> list[Method]:
    spans = trace.all.take(trace.step_places(request))
    return methods_of(trace, spans.take(spans.is_kind("rpc.client")))
