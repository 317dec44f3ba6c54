"""Code of the user's, called: what it prints is no result, what it raises is told in its lines."""

import contextlib
import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tracer.model.refusal import Refusal
from tracer.workloads.factory import FactoryError

T = TypeVar("T")
_OURS = str(Path(__file__).parent.parent)


def in_users_code(doing: str, call: Callable[[], T]) -> T:
    """`call()`; what it prints goes to stderr, and its exception becomes a FactoryError.

    The text holds the lines of the traceback from the user's first one on. A Refusal says enough.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return call()
    except Refusal:
        raise
    except (Exception, SystemExit) as error:
        raise FactoryError(f"{doing} raised {users_lines(error)}") from error


def users_lines(error: BaseException) -> str:
    """The error, then its traceback without Python's and our own frames at its start."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and (frames[0].filename.startswith((_OURS, "<frozen ")) or _is_import(frames[0])):
        del frames[0]
    said = "".join(traceback.format_exception_only(error)).rstrip()
    return "\n".join([said, *"".join(traceback.format_list(frames)).splitlines()])


def _is_import(frame: traceback.FrameSummary) -> bool:
    return frame.filename == importlib.__file__
