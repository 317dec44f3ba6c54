"""Lets kernels of real runs sleep, by a module that Python loads before a task."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

_SLEEPER = """
import json, os, time
from dataclasses import replace

if sleeps := json.loads(os.environ.get("SLEEPS", "{}")):
    from tracer.ops import registry

    def lookup(name, known=registry.lookup):
        op = known(name)

        def bind(node, context):
            inner = op.bind(node, context)
            pause = sleeps.get(node.name, 0) or sleeps.get(f"{node.name} on {context.device}", 0)

            def kernel(*inputs):
                time.sleep(pause)
                return inner(*inputs)

            return kernel if pause else inner

        return replace(op, bind=bind)

    registry.lookup = lookup
"""


def asleep(folder: Path, sleeps: Mapping[str, float]) -> dict[str, str]:
    """Environment in which kernels sleep: seconds by node, or by `node on device`."""
    (folder / "sitecustomize.py").write_text(_SLEEPER)
    return {
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "SLEEPS": json.dumps(dict(sleeps)),
    }
