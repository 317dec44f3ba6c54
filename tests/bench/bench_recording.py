"""What recording costs: the same parameter-server step traced and untraced, interleaved."""

import json
import os
import sys
from pathlib import Path

from tests.bench.blocks import Peer, interleave

ROOT = Path(__file__).parent.parent.parent
ROUNDS, SECONDS = 20, 1.0


def main() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    peer = Peer("vizdist", [sys.executable, "-m", "tests.bench.peer_vizdist"], environment)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    try:
        figures = {
            f"{workers} worker(s)": interleave(
                (peer, workers), (peer, f"{workers}-traced"), rounds, SECONDS
            )
            for workers in ("1", "2")
        }
    finally:
        peer.end()
    print(json.dumps({"bench": "traced against untraced step", **figures}, indent=1))


if __name__ == "__main__":
    main()
