"""Random numbers that follow from a seed, where a library draws them from a global generator."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

#: of whoever changes a global generator for a while: clients of one process draw one at a time
_DRAWING = threading.RLock()


@contextmanager
def own_generator() -> Iterator[None]:
    """Inside, torch's global generator is the caller's, whatever state it gives it."""
    with _DRAWING, torch.random.fork_rng(devices=[]):
        yield


@contextmanager
def drawing_by(seed: int) -> Iterator[None]:
    """Inside, torch, NumPy and Python draw by `seed`; afterwards they go on as if nothing was."""
    with own_generator():
        plain, legacy = random.getstate(), np.random.get_state()
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(legacy)
