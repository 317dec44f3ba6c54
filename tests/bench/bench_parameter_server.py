"""A parameter-server step against TensorFlow's: digits MLP 64-32-10, batch 64.

Both sides: one ps, one or two workers, each task a process, a client process that dials the
workers. TensorFlow talks gRPC; ours gRPC or local sockets; untraced, and with every step traced
(TensorFlow: FULL_TRACE). `2-sync`: both workers' gradients make one update (TensorFlow:
SyncReplicasOptimizer). Run `make bench`, which installs TensorFlow into an environment of its
own, or set VIZDIST_TENSORFLOW_PYTHON. Arguments: rounds, then variants (`1`, `2-traced` …).
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack

from tests.bench.blocks import interleave
from tests.bench.peers import ours, tensorflow

ROUNDS, SECONDS = 20, 1.0
LOOP_STEPS = 2000
TRANSPORTS = ("grpc", "local")
VARIANTS = ("1", "2", "1-traced", "2-traced", "2-sync")


def in_worker_loop(workers: str, transport: str) -> dict[str, float]:
    """The product's own loop: each worker drives its steps itself, nothing is sent by a client."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tracer", "run", "digits-mlp"]
        flags = ["--strategy", "parameter_server_v1", "--workers", workers, "--trace", "none"]
        where = ["--steps", str(LOOP_STEPS), "--json", "--out", f"{folder}/run.trace"]
        done = subprocess.run(
            [*command, *flags, *where, "--transport", transport],
            check=True,
            capture_output=True,
            text=True,
        )
    rate = round(json.loads(done.stdout)["steps_per_s"], 1)
    return {f"in-worker loop {transport}, {workers} worker(s): steps_per_s": rate}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    variants = sys.argv[2:] or VARIANTS
    with ExitStack() as stack:
        peers = [ours(transport) for transport in TRANSPORTS]
        theirs = tensorflow()
        for peer in (*peers, theirs):
            stack.callback(peer.end)
        figures = {
            f"{peer.name}, {variant}": interleave(
                (peer, variant), (theirs, variant), rounds, SECONDS
            )
            for variant in variants
            for peer in peers
        }
    report = {"bench": "parameter-server step", "load": os.getloadavg(), **figures}
    print(json.dumps(report, indent=1), flush=True)
    loops = [in_worker_loop(workers, way) for workers in ("1", "2") for way in TRANSPORTS]
    print(json.dumps({"loops": loops}))


if __name__ == "__main__":
    main()
