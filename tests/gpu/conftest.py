"""Tests that a real GPU must pass; without one they are skipped, and say so.

What CUDA and the profiler warn of is printed, and is no failure.
"""

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if "tests/gpu/" in item.path.as_posix()]
    for item in here:
        item.add_marker(pytest.mark.gpu)
        item.add_marker(pytest.mark.filterwarnings("default"))
        if not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason=f"torch {torch.__version__} finds no GPU"))
