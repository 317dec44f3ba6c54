"""The panel that starts a run: what can be chosen, and the command line that comes of it."""

import json
from typing import Any, Final

from dash import Dash, Input, Output, html
from dash.development.base_component import Component

from tracer.model.fault import OF_FRAMES, Kind
from vizdist.components.callbacks import clientside
from vizdist.i18n import Lang, t
from vizdist.store.runnable import FAULT_NUMBERS, NUMBERS, runnable

WORDS: Final = (
    "workload", "strategy", "workers", "ps", "devices", "steps", "seed", "options", "start",
    "starting", "running", "done", "failed", "open", "stop", "unreachable",
    "fault", "no_fault", "task", "step", "ms", "own_tasks",
)  # fmt: skip


def panel(lang: Lang) -> Component:
    """assets/start_run.mjs draws the form: its parts change with what is chosen."""
    numbers = {name: one._asdict() for name, one in {**NUMBERS, **FAULT_NUMBERS}.items()}
    faults = [{"kind": kind, "ofFrames": kind in OF_FRAMES} for kind in Kind]
    can = {**runnable(), "numbers": numbers, "faults": faults}
    words = {name: t(f"start.{name}", lang) for name in WORDS}
    words |= {f"says.{name}": t(f"start.says.{name}", lang) for name in can["strategies"]}
    words |= {f"faults.{kind}": t(f"start.faults.{kind}", lang) for kind in Kind}
    told: dict[str, Any] = {"data-can": json.dumps(can), "data-words": json.dumps(words)}
    form = html.Form(id="start-run", className="start-form", **told)
    return html.Section(
        [html.H2(t("start.title", lang)), form], className="card start-run", id="start-panel"
    )


def register(app: Dash) -> None:
    """The form is drawn when the panel is there."""
    clientside(app, "start_run.mjs", "draw", Output("start-run", "title"), Input("start-run", "id"))
