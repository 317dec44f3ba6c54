"""No callback may hold the event loop."""

import inspect
import threading
from pathlib import Path

import anyio
from dash import Dash, Input, Output

import vizdist
from vizdist.components.callbacks import callback


def test_a_callback_is_awaited_and_its_work_runs_in_a_thread() -> None:
    app = Dash(__name__)
    ran: list[str] = []

    @callback(app, Output("a", "children"), Input("b", "value"))
    def work(value: int) -> str:
        ran.append(threading.current_thread().name)
        return f"{value} seen"

    assert work(3) == "3 seen"
    registered = inspect.unwrap(app.callback_map["a.children"]["callback"])
    assert inspect.iscoroutinefunction(registered)
    assert anyio.run(registered, 4) == "4 seen"
    assert ran[0] != ran[1]


def test_pages_register_callbacks_through_the_wrapper_alone() -> None:
    """`app.callback` itself would accept a plain `def`, which holds every tile meanwhile."""
    root = Path(vizdist.__file__).parent
    users = [path.name for path in root.rglob("*.py") if "app.callback(" in path.read_text()]
    assert users == ["callbacks.py"]
