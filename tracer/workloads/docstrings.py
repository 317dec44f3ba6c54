"""Real English text that every Python brings along: docstrings of its standard library.

Read from the sources of a fixed list of modules, whose docstrings are the same in Python 3.11, 3.12
and 3.13; one that a later patch edits changes in its own place only. Which docstrings are held out
depends on each one's own text, so the split is the same wherever the text is.
"""

import ast
import gc
import sysconfig
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Lock

import torch
from torch import Tensor

from tracer.model.refusal import Refusal

MODULES = (
    "difflib.py",
    "_pyio.py",
    "email/_header_value_parser.py",
    "email/message.py",
    "http/cookiejar.py",
    "codecs.py",
    "subprocess.py",
    "optparse.py",
    "socketserver.py",
    "xmlrpc/server.py",
    "urllib/parse.py",
    "json/__init__.py",
    "pickletools.py",
    "textwrap.py",
    "contextlib.py",
    "timeit.py",
    "pickle.py",
    "cmd.py",
)
ALPHABET = "\n" + "".join(map(chr, range(ord(" "), ord("~") + 1)))
_HELD_OUT = 10  #: one docstring in so many
_PARSING = Lock()


def docstrings() -> Iterator[str]:
    """Module by module, outermost first; letters outside ALPHABET are left out."""
    library = Path(sysconfig.get_path("stdlib"))
    for name in MODULES:
        path = library / name
        try:
            tree = _parsed(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise Refusal(
                f"char-transformer reads the sources of Python's standard library, and {path} "
                f"cannot be read: {error.strerror}; run it with a Python that has them"
            ) from None
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if kept := "".join(letter for letter in text if letter in ALPHABET):
                    yield kept


def _parsed(text: str) -> ast.Module:
    """Parsed with no garbage collection meanwhile, which lets others run and parse.

    Before Python 3.11.8 all count their depth in one place, and who was interrupted ends with a
    SystemError.
    """
    with _PARSING:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(text)
        finally:
            if was_on:
                gc.enable()


@cache
def letters() -> tuple[Tensor, Tensor]:
    """(training, held out): docstring after docstring, each letter as its place in ALPHABET."""
    parts: tuple[list[str], list[str]] = [], []
    for text in docstrings():
        parts[zlib.crc32(text.encode()) % _HELD_OUT == 0].append(text)
    place = {letter: number for number, letter in enumerate(ALPHABET)}
    kept, held_out = (torch.tensor([place[c] for c in "\n\n".join(part)]) for part in parts)
    return kept, held_out
