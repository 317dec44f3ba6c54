"""Every story of calls is told twice: over gRPC streams, and over unix sockets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rpc.tasks import Task, eventually, tasks


@pytest.fixture(scope="module", params=["grpc", "local"])
def sockets(request: pytest.FixtureRequest) -> Iterator[Path | None]:
    """The folder of the sockets; None: tasks talk over gRPC. Its path must be short."""
    if request.param == "grpc":
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def pair(sockets: Path | None) -> Iterator[tuple[Task, Task]]:
    with tasks("ps:0", "worker:0", sockets=sockets) as (ps, worker):
        yield ps, worker


@pytest.fixture
def clean(pair: tuple[Task, Task]) -> Iterator[None]:
    """Every test starts with empty tables and leaves no large answer under way."""
    yield
    for task in pair:
        task.worker.__init__(task.name)  # type: ignore[misc]
        task.master.__init__()  # type: ignore[misc]
    frames = [task.server._frames for task in pair]
    eventually(lambda: not any(len(f.under_way) for f in frames), "large answers end")
