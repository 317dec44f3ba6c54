"""The peers of the step benchmarks: ours over either transport, and TensorFlow."""

import os
import sys
from pathlib import Path

from tests.bench.blocks import Peer
from tracer.launch.environment import process_settings

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def ours(transport: str) -> Peer:
    """The client is set up as `tracer run` is, its tasks as their launcher sets them up."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PEER_TRANSPORT": transport,
    }
    command = [sys.executable, "-m", "tests.bench.peer_vizdist"]
    return Peer(f"vizdist {transport}", command, environment)


def mirrored() -> Peer:
    """A task with two devices, set up as its launcher sets it up."""
    environment = {**os.environ, **process_settings(2), "PYTHONPATH": str(ROOT)}
    return Peer("vizdist", [sys.executable, "-m", "tests.bench.peer_mirrored"], environment)


def tensorflow(script: str = "peer_tensorflow.py") -> Peer:
    """In an environment of its own, which `make bench` makes; VIZDIST_TENSORFLOW_PYTHON wins."""
    python = os.environ.get(
        "VIZDIST_TENSORFLOW_PYTHON", str(ROOT / ".venv-tensorflow" / "bin" / "python")
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return Peer("tensorflow", [python, str(HERE / script)], environment)
