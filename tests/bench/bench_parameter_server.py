"""A parameter-server step against TensorFlow's: digits MLP 64-32-10, batch 64, untraced, gRPC.

Both sides: one ps, one or two workers, each task a process, a client process that dials the
workers. Run `make bench`, which installs TensorFlow into an environment of its own, or set
VIZDIST_TENSORFLOW_PYTHON.
"""

import json
import os
import sys
from pathlib import Path

from tests.bench.blocks import Peer, interleave

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ROUNDS, SECONDS = 20, 1.0


def tensorflow_python() -> str:
    return os.environ.get(
        "VIZDIST_TENSORFLOW_PYTHON", str(ROOT / ".venv-tensorflow" / "bin" / "python")
    )


def main() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ours = Peer("vizdist", [sys.executable, "-m", "tests.bench.peer_vizdist"], environment)
    peer = [tensorflow_python(), str(HERE / "peer_tensorflow.py")]
    theirs = Peer("tensorflow", peer, {k: v for k, v in environment.items() if k != "PYTHONPATH"})
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    try:
        figures = {
            f"{workers} worker(s)": interleave((ours, workers), (theirs, workers), rounds, SECONDS)
            for workers in ("1", "2")
        }
    finally:
        ours.end()
        theirs.end()
    print(json.dumps({"bench": "parameter-server step over gRPC", **figures}, indent=1))


if __name__ == "__main__":
    main()
