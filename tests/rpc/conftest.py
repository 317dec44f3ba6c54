"""Every story of calls is told twice: over gRPC streams, and over unix sockets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module", params=["grpc", "local"])
def sockets(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """The folder of the sockets; None: tasks talk over gRPC. Its path must be short."""
    if request.param == "grpc":
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)
