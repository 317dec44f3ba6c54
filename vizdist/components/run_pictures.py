"""A run in word-sized pictures: its tasks, its loss, the times of its steps."""

from collections.abc import Sequence
from statistics import median_low

from dash import html
from dash.development.base_component import Component

from vizdist.figures import spark
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration

_LETTERS = {"worker": "W", "ps": "P", "chief": "C"}
MAX_SQUARES = 10
FAR = 2  #: times the median from which a step is drawn as a fault


def task_squares(tasks: Sequence[tuple[str, str]], lang: Lang) -> Component:
    """A square a task, ps apart from workers; one that did not end well is hatched."""
    squares: list[Component] = []
    job_before = ""
    for task, outcome in tasks[:MAX_SQUARES]:
        job = task.partition(":")[0]
        kind = "square" + (" gap" if job_before not in ("", job) else "")
        bad = outcome in ("failed", "killed", "lost")
        squares.append(
            html.Span(
                _LETTERS.get(job, job[:1].upper()),
                className=f"{kind} bad" if bad else kind,
                title=t(f"library.outcome.{outcome}", lang, task=task),
            )
        )
        job_before = job
    more = len(tasks) - MAX_SQUARES
    rest = [html.Span(f"+{more}", className="more")] if more > 0 else []
    words = ", ".join(task for task, _ in tasks)
    return html.Div([*squares, *rest], className="squares", role="img", **{"aria-label": words})


def _picture(layers: Sequence[tuple[str, str]], says: str) -> Component:
    """Layers of (class, mask); the class gives the colour."""
    return html.Div(
        [html.Span(className=f"mask {kind}", style={"maskImage": mask}) for kind, mask in layers],
        className="spark",
        role="img",
        **{"aria-label": says},
    )


def loss_line(losses: Sequence[float], lang: Lang) -> Component:
    if not losses:
        return html.Span(t("library.no_loss", lang), className="hint")
    says = t("library.loss_says", lang, first=f"{losses[0]:.3f}", last=f"{losses[-1]:.3f}")
    return _picture([("ink", spark.line(losses))], says)


def step_dots(durations_ns: Sequence[int], top_ns: float, lang: Lang) -> Component:
    """The median in numbers, every step as a dot; those far above it in the hue of faults."""
    if not durations_ns:
        return html.Span(t("library.no_steps", lang), className="hint")
    middle = median_low(durations_ns)
    usual = [ns for ns in durations_ns if ns <= FAR * middle]
    slow = [ns for ns in durations_ns if ns > FAR * middle]
    layers = [
        ("ink3", spark.dots(usual, top_ns)),
        ("error", spark.dots(slow, top_ns)),
        ("ink", spark.tick(middle, top_ns)),
    ]
    said = duration(middle)
    says = t("library.steps_say", lang, count=len(durations_ns), median=str(said))
    number = html.Div([html.B(said.number), f" {said.unit}"], className="median")
    return html.Div([number, _picture(layers, says)])
