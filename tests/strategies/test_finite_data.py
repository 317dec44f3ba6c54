"""Data that end: training ends with them, on all workers at the same step, and nobody waits."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.clusters import running_cluster
from tests.strategies.inputs_golden import elements, ids_of, rows
from tests.strategies.several_clients import Training
from tests.training.trained import trained
from tracer.capture_graph.optimizers import SGD
from tracer.runtime.interfaces import StepError
from tracer.strategies.inputs.distribute import distribute_dataset
from tracer.strategies.registry import STRATEGIES
from tracer.strategies.strategy import Topology
from tracer.workloads import wide_deep
from tracer.workloads.batching import Reading, row_batches
from tracer.workloads.workload import Workload, seeded

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


def test_a_worker_that_others_updates_wait_for_says_that_its_data_ended() -> None:
    servers = STRATEGIES["parameter_server_v1"]
    spec = servers.cluster(Topology(workers=1))
    workload = ten_rows(Reading(batch=5, epochs=1))
    with running_cluster("near", spec) as cluster:
        training = Training(cluster, spec, servers.name, workload, MANY)
        with pytest.raises(StepError, match=r"ended with step 2.*let its data repeat") as caught:
            training.run(sync="true")
    assert caught.value.code == "OUT_OF_RANGE"


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
