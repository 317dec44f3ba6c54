"""What recording costs: the same parameter-server step traced and untraced, interleaved."""

import json
import os
import sys

from tests.bench.blocks import interleave
from tests.bench.peers import ours

ROUNDS, SECONDS = 20, 1.0


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    peer = ours(sys.argv[2] if len(sys.argv) > 2 else "grpc")
    try:
        figures = {
            f"{workers} worker(s)": interleave(
                (peer, workers), (peer, f"{workers}-traced"), rounds, SECONDS
            )
            for workers in ("1", "2")
        }
    finally:
        peer.end()
    report = {"bench": "traced against untraced step", "load": os.getloadavg(), **figures}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
