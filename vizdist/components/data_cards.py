"""The cards of the Data page: the grid of examples, policies, cuts, and mean against mean."""

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.data_told import UNKNOWN
from vizdist.analysis.example_grid import Cell, Grid
from vizdist.analysis.mean_of_means import Mean, Means
from vizdist.analysis.sentence import Sentence
from vizdist.analysis.who_saw_what import (
    OUR_OWN,
    Data,
    Refused,
    Row,
    Taken,
    num_thrown,
    row_names,
)
from vizdist.components.cards import icon, link, rich, says
from vizdist.components.proof import evidence, proof, span_id
from vizdist.components.view import View
from vizdist.i18n import Lang, t
from vizdist.i18n.units import figures

ACROSS = 24  #: examples of a line of the grid
MOST_MEANS = 4  #: rows of the table of means


def sentence(said: Sentence, view: View) -> Component:
    """Its words, and the way to the spans that it was read from."""
    where = proof(view, said.page, said.step, span_id(said.proof[0]))
    label = [t(f"shell.pages.{said.page}", view.lang), icon("right")]
    words = html.Span(rich(f"data.{said.key}", view.lang, **said.values))
    parts = [icon("data"), words, link(label, where, kind="button")]
    return html.Div(parts, className="sentence", **evidence(said.proof, said.source))


def grid_of(grid: Grid, view: View) -> list[Component]:
    """Lines of ACROSS examples, each with a row a replica."""
    starts = range(0, len(grid.examples), ACROSS)
    lines = [_line(grid, grid.examples[start : start + ACROSS], view) for start in starts]
    if grid.left_out:
        more = t("data.left_out", view.lang, count=grid.left_out)
        lines.append(html.P(more, className="note"))
    return lines


def _line(grid: Grid, examples: Sequence[int], view: View) -> Component:
    head = [html.Td(), *(html.Th(f"{example}", scope="col") for example in examples)]
    missing = ACROSS - len(examples)
    rest = [html.Td(className="beyond")] * missing
    rows = [html.Tr([*head, *rest])]
    names = row_names(grid.rows)
    for row in grid.rows:
        cells = [_cell(grid, row, example, view.lang) for example in examples]
        rows.append(html.Tr([html.Th(names[row], scope="row"), *cells, *rest]))
    values = {"first": examples[0], "last": examples[-1]}
    return html.Table(rows, className="examples", **says(t("data.grid.line", view.lang, **values)))


def _cell(grid: Grid, row: Row, example: int, lang: Lang) -> Component:
    cell = grid.cells.get((row, example))
    if cell is not None:
        return _trained(cell, row, example, lang)
    if (step := grid.discarded.get((row, example))) is not None:
        told = t("data.cell.thrown", lang, example=example, task=row[0], step=f"{step:,}")
        return html.Td(html.Span(), className="thrown", title=told, **says(told))
    if example in grid.unseen:
        told = t("data.cell.unseen", lang, example=example)
        return html.Td(html.Span(), className="unseen", title=told, **says(told))
    return html.Td()


def _trained(cell: Cell, row: Row, example: int, lang: Lang) -> Component:
    values = {"example": example, "task": row[0], "replica": row[1], "step": f"{cell.step:,}"}
    told = t("data.cell.trained", lang, **values)
    if cell.times > 1:
        told += t("data.cell.times", lang, count=cell.times)
    if cell.is_twice:
        told += t("data.cell.twice", lang)
    names = [f"level{cell.level}", *(["twice"] if cell.is_twice else [])]
    names += ["now"] if cell.is_now else []
    return html.Td(
        html.Span(f"{cell.step}"), className=" ".join(names), title=told,
        **evidence([cell.span]),
    )  # fmt: skip


def policies(data: Data, view: View) -> Component:
    """A row a worker: what was asked, what took effect, what it read and kept."""
    lang = view.lang
    names = ("worker", "asked", "effective", "read", "kept", "thrown")
    head = html.Tr([html.Th(t(f"data.policy.{name}", lang), scope="col") for name in names])
    rows = [_policy(task, data, view) for task in data.tasks]
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="figures")
    return html.Div([table, html.P(rich(f"data.why.{_why(data)}", lang, **_sizes(data)))])


def _policy(task: str, data: Data, view: View) -> Component:
    own = [one for one in data.taken if one.task == task]
    kept, thrown = sum(one.rows for one in own), num_thrown(own)
    read = None if thrown is None else kept + thrown
    where = proof(view, "timeline", own[0].step, span_id(own[0].span))
    names = (_policy_name(name, view.lang) for name in (own[0].asked, own[0].effective))
    counts = (UNKNOWN if count is None else f"{count:,}" for count in (read, kept, thrown))
    cells = [*names, *counts]
    return html.Tr(
        [html.Th(link(task, where), scope="row"), *map(html.Td, cells)],
        **evidence(one.span for one in own),
    )


def _policy_name(policy: str, lang: Lang) -> str:
    return t("data.policy.own", lang) if policy == OUR_OWN else policy


def _why(data: Data) -> str:
    first = data.taken[0]
    if first.workers == 1:
        return "one_worker"
    if first.effective == OUR_OWN:
        return "own" if data.is_alone else "function"
    effective = first.effective.lower()
    return f"auto_{effective}" if first.asked == "AUTO" else effective


def _sizes(data: Data) -> dict[str, object]:
    first = data.taken[0]
    return {"workers": first.workers, "files": first.files}


def refusal(refused: Sequence[Refused]) -> Component:
    """Each task in its own words; a span of it is the proof."""
    rows = [
        html.Div([html.B(one.task), html.P(one.says)], **evidence([one.span])) for one in refused
    ]
    return html.Div([icon("close"), html.Div(rows)], className="refused", role="note")


def cuts(data: Data, step: int, view: View) -> list[Component]:
    """Batch sizes of the step, and of the next step that was cut otherwise."""
    here = data.by_step.get(step)
    if here is None:
        return [html.P(t("data.cut.not_here", view.lang, step=f"{step:,}"))]
    parts = [_cut(here, view, kind="now")]
    other = _cut_otherwise(data, step)
    if other is not None:
        parts.append(_cut(other, view))
    else:
        parts.append(html.P(t("data.cut.always", view.lang), className="note"))
    return parts


def _shape(taken: Sequence[Taken]) -> list[tuple[int, ...]]:
    return [tuple(part.rows for part in one.parts) for one in taken]


def _cut_otherwise(data: Data, step: int) -> tuple[Taken, ...] | None:
    own = _shape(data.by_step[step])
    others = [at for at, taken in data.by_step.items() if _shape(taken) != own]
    nearest = [at for at in others if at > step] or others
    return data.by_step[nearest[0]] if nearest else None


def _cut(taken: Sequence[Taken], view: View, kind: str = "") -> Component:
    lang, step = view.lang, taken[0].step
    title = t("data.cut.of", lang, count=sum(one.rows for one in taken), step=f"{step:,}")
    where = proof(view, "data", step)
    rows = [
        html.Tr(
            [
                html.Th(one.task, scope="row"),
                *(_tile(p.rows, p.replica, p.span, lang) for p in one.parts),
            ]
        )
        for one in taken
    ]
    heading = html.H3(title if kind else link(title, where))
    return html.Div([heading, html.Table(rows, className="tiles")], className=f"one-cut {kind}")


def _tile(rows: int, replica: int, span: int, lang: Lang) -> Component:
    told = t("data.cut.tile", lang, replica=replica, count=rows)
    return html.Td(f"{rows}", className="" if rows else "nothing", title=told, **evidence([span]))


def means_of(means: Means | None, view: View) -> list[Component]:
    """The figures of the run, row by row, then the two means."""
    lang = view.lang
    if means is None:
        return [html.P(t("data.means.none", lang))]
    names = ("of", "examples", "loss")
    head = html.Tr([html.Th(t(f"data.means.{name}", lang), scope="col") for name in names])
    rows = [_mean(mean, means.kind, view) for mean in _shown(means)]
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="figures means")
    left = len(means.means) - len(rows)
    more = [html.P(t("data.means.more", lang, count=left), className="note")] if left else []
    key = "even" if means.is_even else means.kind
    two = [
        _big(means.of_means, t("data.means.of_means", lang, count=len(means.means))),
        _big(means.of_examples, t("data.means.of_examples", lang, count=means.examples)),
    ]
    words = html.P(rich(f"data.means.says.{key}", lang))
    return [table, *more, html.Div(two, className="two"), words]


def _shown(means: Means) -> Sequence[Mean]:
    """Those that weigh otherwise are among them."""
    if len(means.means) <= MOST_MEANS:
        return means.means
    least = min(means.means, key=lambda mean: mean.examples)
    first = means.means[: MOST_MEANS - 1]
    return first if least in first else (*first, least)


def _mean(mean: Mean, kind: str, view: View) -> Component:
    name = t(f"data.means.row.{kind}", view.lang, task=mean.task, number=f"{mean.number:,}")
    step = mean.number if kind == "steps" else 0
    where = proof(view, "timeline", step, span_id(mean.span))
    cells = [html.Td(f"{mean.examples:,}"), html.Td(f"{mean.loss:.4g}")]
    return html.Tr([html.Th(link(name, where), scope="row"), *cells], **evidence([mean.span]))


def _big(value: float, caption: str) -> Component:
    return html.Div([html.B(f"{value:.5g}" if value else figures(value)), html.Span(caption)])
