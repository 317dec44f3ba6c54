"""The one way to register a callback: Dash awaits, a thread works.

A plain `def` callback would run on the event loop and hold every tile request meanwhile, so pages
register plain functions here and never through `app.callback`.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

import anyio.to_thread
from dash import Dash, Output
from dash.exceptions import PreventUpdate

from vizdist.components.plain import folded
from vizdist.store.problems import TraceError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: The ids that callbacks read and write; whatever else a page holds, Dash need not know.
TIED: set[str] = set()


def callback(
    app: Dash, *dependencies: Any, **options: Any
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates the work of a callback; the work itself stays directly callable."""
    _tie(dependencies)
    filled = [one.component_property for one in dependencies if isinstance(one, Output)]

    def register(work: Callable[P, T]) -> Callable[P, T]:
        def answer(*args: P.args, **kwargs: P.kwargs) -> Any:
            return _answer(work(*args, **kwargs), filled)

        async def in_thread(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return await anyio.to_thread.run_sync(partial(answer, *args, **kwargs))
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


def _answer(found: Any, filled: Sequence[str]) -> Any:
    """What Dash is told of what a callback found for these properties."""
    if len(filled) == 1:
        return folded(found, TIED) if filled[0] == "children" else found
    if not isinstance(found, list | tuple):
        return found
    pairs = zip(found, filled, strict=True)
    return [folded(one, TIED) if name == "children" else one for one, name in pairs]


def _tie(dependencies: Iterable[Any]) -> None:
    for one in dependencies:
        if isinstance(one, list | tuple):
            _tie(one)
        else:
            TIED.add(one.component_id)


def clientside(app: Dash, module: str, function: str, *dependencies: Any, **options: Any) -> None:
    """Registers an exported function of assets/MODULE as a callback that runs in the browser."""
    _tie(dependencies)
    url = json.dumps(app.get_asset_url(module))
    source = f"async (...args) => (await import({url})).{function}(...args)"
    app.clientside_callback(source, *dependencies, **options)  # type: ignore[no-untyped-call]
