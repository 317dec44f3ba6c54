"""Random numbers that follow from a seed, where a library draws them from a global generator."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def drawing_by(seed: int) -> Iterator[None]:
    """Inside, torch, NumPy and Python draw by `seed`; afterwards they go on as if nothing was."""
    plain, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(legacy)
