"""For every test: one torch thread, since test processes share two cores with what they start.

For the same reason an example of a property may take as long as it likes.
"""

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.captured import Captured

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> "Captured":
    """Real runs, each captured once for all who look at it."""
    from tests.captured import Captured  # noqa: PLC0415 - it brings torch

    return Captured(tmp_path_factory.mktemp("captured"))
