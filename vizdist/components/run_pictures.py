"""A run in word-sized pictures: its tasks, its loss, the times of its steps."""

from collections.abc import Sequence
from statistics import median_low

from dash import html
from dash.development.base_component import Component

from vizdist.analysis.loss_curve import LossCurve, metric_title
from vizdist.components.cards import says
from vizdist.figures import spark
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration

_LETTERS = {"worker": "W", "ps": "P", "chief": "C"}
MAX_SQUARES = 10
FAR = 2  #: times the median from which a step may be drawn as one that stands out
FEW = 50  #: a step in so many may stand out; where more are slow, slow is usual


def task_squares(tasks: Sequence[tuple[str, str]], lang: Lang) -> Component:
    """A square a task, ps apart from workers; one that did not end well is hatched."""
    squares: list[Component] = []
    job_before = ""
    for task, outcome in tasks[:MAX_SQUARES]:
        job = task.partition(":")[0]
        kind = "square" + (" apart" if job_before not in ("", job) else "")
        bad = outcome in ("failed", "killed", "lost")
        known = job in _LETTERS
        title = t(f"library.outcome.{outcome}", lang, task=task) if known else task
        kind = f"{kind} bad" if bad else kind
        squares.append(html.Span(_LETTERS.get(job), className=kind, title=title))
        job_before = job if known else ""
    more = len(tasks) - MAX_SQUARES
    rest = [html.Span(f"+{more}", className="more")] if more > 0 else []
    words = ", ".join(task for task, _ in tasks)
    return html.Div([*squares, *rest], className="squares", role="img", **says(words))


def _picture(layers: Sequence[tuple[str, str]], label: str) -> Component:
    """Layers of (class, mask); the class gives the colour."""
    return html.Div(
        [html.Span(className=f"mask {kind}", style={"maskImage": mask}) for kind, mask in layers],
        className="spark",
        role="img",
        **says(label),
    )


def loss_line(curve: LossCurve, lang: Lang) -> Component:
    """And, below it, what the model was judged by."""
    losses = [loss for _, loss in curve.mean]
    if not losses:
        return html.Span(t("library.no_loss", lang), className="hint")
    picture = _picture([("ink", spark.line(losses))], loss_says(curve, lang))
    metric = curve.metric
    told = [html.Small(f"{metric_title(metric.name, lang)} {metric}")] if metric else []
    return html.Div([picture, *told], title=loss_says(curve, lang))


def loss_says(curve: LossCurve, lang: Lang) -> str:
    """Of several workers it is the mean."""
    (_, first), *_, (_, last) = (*curve.mean[:1], *curve.mean)
    words = {"first": f"{first:.3f}", "last": f"{last:.3f}"}
    if len(curve.lines) == 1:
        return t("library.loss_says", lang, **words)
    return t("library.mean_loss_says", lang, workers=len(curve.lines), **words)


def step_dots(durations_ns: Sequence[int], scale: spark.Scale, lang: Lang) -> Component:
    """The median in numbers, every step as a dot; the few far above it in the hue of faults."""
    if not durations_ns:
        return html.Span(t("library.no_steps", lang), className="hint")
    middle = median_low(durations_ns)
    few = max(1, len(durations_ns) // FEW)
    far = max(FAR * middle, sorted(durations_ns)[-few - 1] if len(durations_ns) > few else 0)
    usual = [ns for ns in durations_ns if ns <= far]
    slow = [ns for ns in durations_ns if ns > far]
    layers = [
        ("ink3", spark.dots(usual, scale)),
        ("error", spark.dots(slow, scale)),
        ("ink", spark.tick(middle, scale)),
    ]
    said = duration(middle)
    label = t("library.steps_say", lang, count=len(durations_ns), median=str(said))
    number = html.Div([html.B(said.number), f" {said.unit}"], className="median")
    return html.Div([number, _picture(layers, label)], title=label)
