"""A parameter-server step against TensorFlow's: digits MLP 64-32-10, batch 64, untraced, gRPC.

Both sides: one ps, one or two workers, each task a process, a client process that dials the
workers. Run `make bench`, which installs TensorFlow into an environment of its own, or set
VIZDIST_TENSORFLOW_PYTHON.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.blocks import Peer, interleave

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ROUNDS, SECONDS = 20, 1.0
LOOP_STEPS = 2000


def tensorflow_python() -> str:
    return os.environ.get(
        "VIZDIST_TENSORFLOW_PYTHON", str(ROOT / ".venv-tensorflow" / "bin" / "python")
    )


def in_worker_loop(workers: str) -> dict[str, float]:
    """The product's own loop: each worker drives its steps itself, nothing is sent by a client."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tracer", "run", "digits-mlp"]
        flags = ["--strategy", "parameter_server_v1", "--workers", workers, "--trace", "none"]
        where = ["--steps", str(LOOP_STEPS), "--json", "--out", f"{folder}/run.trace"]
        done = subprocess.run(
            [*command, *flags, *where], check=True, capture_output=True, text=True
        )
    return {"vizdist in-worker loop: steps_per_s": round(json.loads(done.stdout)["steps_per_s"], 1)}


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
    for workers in ("1", "2"):
        figures[f"{workers} worker(s)"] |= in_worker_loop(workers)
    print(json.dumps({"bench": "parameter-server step over gRPC", **figures}, indent=1))


if __name__ == "__main__":
    main()
