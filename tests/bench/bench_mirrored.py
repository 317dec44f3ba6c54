"""A step of digits-mlp on two devices of one task against TensorFlow's.

Both are one process with two CPU devices, untraced, and train on half of a batch of 64 a device.
Budget: at least 0.8 × TensorFlow, by the ring and by reduce-to-one. TensorFlow has no ring on CPUs:
the `default` of its MirroredStrategy there reduces to one device, which is what both are compared
with. `central_storage` is compared with its CentralStorageStrategy. Run `make bench`,
which installs TensorFlow into an environment of its own, or set VIZDIST_TENSORFLOW_PYTHON.
Arguments: rounds, then variants.
"""

import json
import os
import sys
from contextlib import ExitStack

from tests.bench.blocks import interleave
from tests.bench.peers import mirrored, tensorflow

ROUNDS, SECONDS = 20, 1.0
VARIANTS = {"reduce_to_one": "default", "ring": "default", "central_storage": "central_storage"}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with ExitStack() as stack:
        own, theirs = mirrored(), tensorflow("peer_mirrored_tensorflow.py")
        for peer in (own, theirs):
            stack.callback(peer.end)
        figures = {
            variant: interleave((own, variant), (theirs, VARIANTS[variant]), rounds, SECONDS)
            for variant in sys.argv[2:] or VARIANTS
        }
    report = {"bench": "step of one task", "load": os.getloadavg(), **figures}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
