"""What each level of --detail costs: a parameter-server step traced and untraced, interleaved.

Beside wall time it says what the CPU of all processes, the collector among them, spends on a step.
"""

import json
import os
import sys

from tests.bench.blocks import interleave
from tests.bench.peers import ours
from tracer.model.schema import DETAILS

ROUNDS, SECONDS = 20, 1.0


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    figures = {}
    for detail in DETAILS:
        os.environ["PEER_DETAIL"] = detail
        peer = ours("grpc")
        try:
            figures[detail] = interleave((peer, "1"), (peer, "1-traced"), rounds, SECONDS)
        finally:
            peer.end()
    print(json.dumps({"bench": "detail", "load": os.getloadavg(), **figures}, indent=1))


if __name__ == "__main__":
    main()
