"""The one way to register a callback: Dash awaits, a thread works.

A plain `def` callback would run on the event loop and hold every tile request meanwhile, so pages
register plain functions here and never through `app.callback`.
"""

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

import anyio.to_thread
from dash import Dash
from dash.exceptions import PreventUpdate

from vizdist.store.problems import TraceError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def callback(
    app: Dash, *dependencies: Any, **options: Any
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates the work of a callback; the work itself stays directly callable."""

    def register(work: Callable[P, T]) -> Callable[P, T]:
        async def in_thread(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await anyio.to_thread.run_sync(partial(work, *args, **kwargs))
            except TraceError:  # the viewer has gone on to another address meanwhile
                raise PreventUpdate from None
            except PreventUpdate:
                raise
            except Exception:  # Dash answers 500 and says nothing
                logger.exception("callback %s failed", work.__name__)
                raise

        app.callback(*dependencies, **options)(in_thread)
        return work

    return register


def clientside(app: Dash, module: str, function: str, *dependencies: Any, **options: Any) -> None:
    """Registers an exported function of assets/MODULE as a callback that runs in the browser."""
    url = json.dumps(app.get_asset_url(module))
    source = f"async (...args) => (await import({url})).{function}(...args)"
    app.clientside_callback(source, *dependencies, **options)  # type: ignore[no-untyped-call]
