"""Data that end: training ends with them, on all workers at the same step, and nobody waits."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.clusters import TestCluster, cluster_kind, running_cluster, start_cluster
from tests.strategies.inputs_golden import elements, ids_of, rows
from tests.strategies.several_clients import Training
from tests.training.trained import trained
from tracer.capture_graph.optimizers import SGD
from tracer.model.cluster import TaskName
from tracer.runtime.interfaces import StepError
from tracer.strategies.inputs.distribute import distribute_dataset
from tracer.strategies.leaving import Leaving
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Topology
from tracer.training.checkpoint import Checkpoints
from tracer.workloads import wide_deep
from tracer.workloads.batching import Reading, row_batches
from tracer.workloads.workload import Workload, seeded

__all__ = ["cluster_kind", "start_cluster"]

MANY = 100
MIRRORED = STRATEGIES["multi_worker_mirrored"]
TWO = MIRRORED.cluster(Topology(workers=2))


def ten_rows(reading: Reading) -> Workload:
    """Fits a line to ten rows."""
    x = torch.linspace(-1, 1, 30).reshape(10, 3)
    batch = x, x[:, :2] * 2
    return Workload(
        seeded(lambda: nn.Linear(3, 2)),
        functional.mse_loss,
        SGD(0.1),
        row_batches(lambda: batch, reading),
    )


@pytest.mark.parametrize("policy", ["DATA", "OFF"])
def test_the_last_input_says_that_it_is_the_last(policy: str) -> None:
    for worker in (0, 1):
        given = [
            *distribute_dataset(
                rows(elements(9), 4), workers=2, worker=worker, autoshard=policy
            )
        ]  # fmt: skip
        assert [one.is_last for one in given] == [False] * (len(given) - 1) + [True]


def test_training_ends_with_the_data_however_many_steps_were_asked_for() -> None:
    run = trained(wide_deep.workload(batch=100, epochs=2), "one_device", MANY)
    assert len(run.fitted.losses) == 2 * 4
    nexts = [span for span in run.spans if span.kind == "data.next"]
    assert [span.attributes["vizdist.batch"] for span in nexts] == [100, 100, 100, 50] * 2
    assert [span.attributes["vizdist.data.is_last"] for span in nexts] == [False] * 7 + [True]


def test_as_few_steps_as_were_asked_for_are_taken_of_more_data() -> None:
    run = trained(wide_deep.workload(batch=100, epochs=2), "one_device", 3)
    assert len(run.fitted.losses) == 3


def test_a_worker_whose_files_hold_fewer_rows_steps_along_with_empty_batches() -> None:
    """Three files of 4, 3 and 3 rows: the first worker has two of them, the second has one."""
    workload = ten_rows(Reading(batch=4, files=3, epochs=1))
    with running_cluster("near", TWO) as cluster:
        first, second = Training(cluster, TWO, MIRRORED.name, workload, MANY).run()
        spans = sorted(cluster.spans("data.next"), key=lambda span: span.step)
    assert len(first.losses) == 4
    assert first.losses == second.losses
    assert all(torch.equal(value, second.variables[n]) for n, value in first.variables.items())
    batches = [
        [
            int(span.attributes["vizdist.batch"])
            for span in spans
            if span.attributes["vizdist.data.worker"] == worker
        ]
        for worker in (0, 1)
    ]
    assert batches == [[2, 2, 2, 1], [2, 1, 0, 0]]


def test_every_row_is_trained_once_where_each_worker_reads_what_its_function_gives() -> None:
    with running_cluster("near", TWO) as cluster:
        workload = ten_rows(Reading(batch=4, epochs=1))
        clients = Training(cluster, TWO, MIRRORED.name, workload, MANY).run(autoshard="FUNCTION")
        spans = cluster.spans("data.next")
        copies = cluster.spans("data.copy")
    assert [len(client.losses) for client in clients] == [3, 3]
    assert clients[0].losses == clients[1].losses
    assert {span.attributes["vizdist.data.effective"] for span in spans} == {"FUNCTION"}
    sizes = {(s.step, s.attributes["vizdist.data.global_batch"]) for s in spans}
    assert sizes == {(1, 4), (2, 4), (3, 2)}
    assert sum(int(span.attributes["vizdist.batch"]) for span in copies) == 10


SERVERS = STRATEGIES["parameter_server_v1"]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_whose_data_end_with_one_step_end_with_it_also_where_they_wait_for_each_other(
    start_cluster: Callable[..., TestCluster], workers: int
) -> None:
    spec = SERVERS.cluster(Topology(workers=workers))
    workload = ten_rows(Reading(batch=4, epochs=1))
    clients = Training(start_cluster(spec), spec, SERVERS.name, workload, MANY).run(sync="true")
    assert [len(client.losses) for client in clients] == [{1: 3, 2: 2}[workers]] * workers


def test_a_worker_that_others_updates_wait_for_says_with_which_step_its_data_ended() -> None:
    """Four rows of the ten, three and three: the first worker has one batch more than others."""
    spec = SERVERS.cluster(Topology(workers=3))
    workload = ten_rows(Reading(batch=3, epochs=1))
    over: list[StepError] = []  # what ends the step of the one that waits for the others
    with running_cluster("near", spec, lost=lambda: over[0] if over else None) as cluster:
        training = Training(cluster, spec, SERVERS.name, workload, MANY)
        with ThreadPoolExecutor(3) as pool:
            first, *others = (
                pool.submit(training.client, {"sync": "true"}, TaskName("worker", number))
                for number in range(3)
            )
            wait(others)
            over.append(StepError("CANCELLED", "the others have ended"))
    for number, other in enumerate(others, 1):
        with pytest.raises(StepError, match="an update takes gradients of 3 workers") as caught:
            other.result()
        assert caught.value.code == "OUT_OF_RANGE"
        ended = f"the data of worker:{number} ended with step 1, and worker:0 would go on, but"
        assert caught.value.message.startswith(ended)
    with pytest.raises(StepError, match="the others have ended"):
        first.result()


def test_workers_leave_where_enough_go_on_without_them() -> None:
    spec = SERVERS.cluster(Topology(workers=3))
    workload = ten_rows(Reading(batch=3, epochs=1))
    with running_cluster("near", spec) as cluster:
        training = Training(cluster, spec, SERVERS.name, workload, MANY)
        clients = training.run(sync="true", backup_workers="2")
    assert [len(client.losses) for client in clients] == [2, 1, 1]


def test_the_worker_that_makes_the_updates_cannot_leave_before_the_others() -> None:
    leaving = Leaving("", "", TaskName("worker", 0), is_chief=True, wanted=1)
    assert leaving.error([1, 1], 7) is None
    error = leaving.error([1, 0], 7)
    assert error is not None
    assert (error.code, error.task) == ("OUT_OF_RANGE", "worker:0")
    assert "ended with step 7, and worker:1 would go on, but worker:0 makes the" in error.message


def test_a_run_that_goes_on_with_no_data_left_ends_at_once(tmp_path: Path) -> None:
    spec = SERVERS.cluster(Topology(workers=2))
    workload = ten_rows(Reading(batch=4, epochs=1))
    taken = []
    for _ in range(2):
        with running_cluster("near", spec, checkpoints=tmp_path) as cluster:
            training = Training(cluster, spec, SERVERS.name, workload, MANY)
            told = replace(training, checkpoints=Checkpoints(tmp_path))
            taken.append([len(client.losses) for client in told.run(sync="true")])
    assert taken == [[2, 2], [0, 0]]


def test_two_files_open_at_a_time_are_read_by_turns() -> None:
    x = torch.arange(10.0).reshape(10, 1)
    reading = Reading(batch=10, files=5, cycle=2)
    assert reading.source((x, x)).ids().tolist() == [0, 2, 1, 3, 4, 6, 5, 7, 8, 9]


def test_hint_splits_where_the_data_set_says_so() -> None:
    for worker, expected in ((0, [0, 2, 4, 6]), (1, [1, 3, 5, 7])):
        given = distribute_dataset(
            rows(elements(8), 4, takes_hint=True), workers=2, worker=worker, autoshard="HINT"
        )
        assert [n for step in given for n in ids_of(step)[0]] == expected
