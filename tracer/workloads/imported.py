"""`package.module:factory`: a workload of the user's own, imported as Python imports a script's.

Only a command line names one, in this process or in the launcher that started it: neither a browser
nor a message of the cluster ever gets here.
"""

import importlib
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from tracer.model.refusal import did_you_mean
from tracer.workloads.factory import Factory, FactoryError
from tracer.workloads.users_code import in_users_code

EXAMPLE = "write package.module:factory, such as train:make for `def make()` in train.py"


def names_factory(workload: str) -> bool:
    return ":" in workload


def import_factory(name: str) -> Factory:
    """The factory, which lies on Python's path or in the current directory. Raises FactoryError."""
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise FactoryError(f"{name!r} names no factory: {EXAMPLE}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = in_users_code(f"importing {module_name}", partial(_import, module_name))
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            hint = did_you_mean(part, (n for n in vars(found) if not n.startswith("_"))) or "."
            raise FactoryError(f"{module_name} has no {part!r}{hint} It is {module.__file__}")
        found = getattr(found, part)
    if not callable(found):
        raise FactoryError(
            f"{name} is a {type(found).__name__}; it must be a function that makes the workload "
            "(def make(): return {...})"
        )
    factory: Factory = found
    return factory


def _import(name: str) -> ModuleType:
    parts = name.split(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in {".".join(parts[:n]) for n in range(1, len(parts) + 1)}:
            raise  # it is there, and misses another
    hint = did_you_mean(name, (path.stem for path in Path.cwd().glob("*.py"))) or "."
    raise FactoryError(
        f"there is no module {name!r}{hint} Looked in {Path.cwd()} and on Python's path; {EXAMPLE}"
    )
