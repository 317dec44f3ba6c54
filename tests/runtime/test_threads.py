"""Long segments compute on their device's thread, and many threads at once lose nothing."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.clusters import TestCluster
from tests.runtime.graphs import CLUSTER, WORKER_0, WORKER_1, counter
from tracer.model.graph_json import read_graph_file
from tracer.ops.dtypes import literal_to_tensor
from tracer.runtime import generated_executor
from tracer.runtime.interfaces import StepError

Start = Callable[..., TestCluster]
GOLDEN = Path(__file__).parent.parent / "golden"


def test_a_long_segment_leaves_the_thread_that_reads_messages(
    start_cluster: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated_executor, "INLINE_LIMIT_NS", -1)
    threads: set[str] = set()
    compute = generated_executor._Run.compute

    def seen(*args: object) -> None:
        threads.add(threading.current_thread().name)
        compute(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(generated_executor._Run, "compute", seen)
    file = read_graph_file(GOLDEN / "viii_mlp_ref_1ps__grpc.json")
    session = start_cluster(file.cluster, trace=False).session(file.graph)
    session.run(str(file.run.init))
    feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
    assert session.run("loss:0", feeds).item() == pytest.approx(1.0926631689071655)
    assert threads == {"ps:0 CPU:0", "worker:0 CPU:0"}


def test_clients_on_two_masters_add_to_one_variable_and_no_addition_is_lost(
    start_cluster: Start,
) -> None:
    cluster = start_cluster(CLUSTER, trace=False)
    sessions = [cluster.session(counter(), at=at) for at in (WORKER_0, WORKER_1)]
    sessions[0].run("init")
    errors: list[StepError] = []

    def client(number: int) -> None:
        add = sessions[number].make_callable(["add"], ["x:0"])
        try:
            for _ in range(60):
                add(torch.ones(2))
        except StepError as error:
            errors.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors
    assert sessions[1].run("read:0").tolist() == [121.0, 121.0]


def test_one_slow_run_among_quick_ones_does_not_make_a_segment_long() -> None:
    part = generated_executor._Part(None, None)  # type: ignore[arg-type]
    for took in [50_000] * 5 + [20_000_000] + [50_000] * 5:
        part.see(took)
    assert part.cost_ns < generated_executor.INLINE_LIMIT_NS
    for _ in range(3):
        part.see(30_000_000)
    assert part.cost_ns > generated_executor.INLINE_LIMIT_NS
