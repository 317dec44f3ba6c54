"""For every test: one torch thread, since test processes share two cores with what they start."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
