"""wide-deep: learns from categories, as eager torch does; its tables are read and updated by id."""

import pytest
import torch

from tests.training.trained import eager, trained
from tests.workloads.learning import Learner
from tracer.strategies.inputs.dataset import Rows
from tracer.strategies.inputs.distribute import InputContext
from tracer.workloads import wide_deep
from tracer.workloads.diabetes import BUCKETS, COMBINATIONS, HELD_OUT, diabetes

WORKLOAD = wide_deep.workload()
SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_tells_a_third_of_the_variance_of_patients_it_never_saw(seed: int) -> None:
    learner = Learner(wide_deep.workload(drop_remainder=True), seed)
    assert learner.metric < 0
    learner.learn(60)
    assert learner.metric >= 1 / 3
    assert sum(learner.losses[-10:]) < sum(learner.losses[:10]) / 2


@pytest.mark.parametrize("strategy", ["one_device", "parameter_server_v1"])
def test_its_losses_are_those_of_eager_torch_with_a_short_last_batch(strategy: str) -> None:
    module = WORKLOAD.make_module(0)
    optimizer = torch.optim.AdamW(module.parameters(), 0.01, weight_decay=1.0)
    run = trained(WORKLOAD, strategy, 12)
    assert run.fitted.losses == pytest.approx(eager(WORKLOAD, optimizer, module, 12), abs=1e-5)
    assert len(run.fitted.signatures) == 2  # 32 patients; 30 at the end of an epoch


def test_the_gradient_of_a_table_adds_up_rows_by_their_ids() -> None:
    graph = WORKLOAD.capture(0).graph
    backward = [n for n in graph.nodes if n.op == "aten.embedding_dense_backward.default"]
    assert sorted(node.specs[0].shape for node in backward) == [(50, 8), (75, 1)]


def test_every_category_is_within_its_table_and_a_bucket_holds_about_a_fifth() -> None:
    (x, y), (held_out, _) = diabetes()
    assert (len(y), len(held_out)) == (350, HELD_OUT)
    both = torch.cat([x, held_out])
    assert int(both.min()) == 0
    assert int(both[:, :10].max()) == BUCKETS - 1
    assert int(both[:, 10:].max()) < COMBINATIONS
    bmi = torch.bincount(x[:, 2], minlength=BUCKETS)
    assert all(60 <= count <= 80 for count in bmi.tolist())


def test_rows_in_files_are_the_rows_in_memory() -> None:
    in_files = wide_deep.workload(files=3)
    dataset = in_files.dataset(0, InputContext())
    assert isinstance(dataset, Rows)
    assert dataset.num_files == 3
    for ours, theirs in zip(
        next(in_files.batches(0, 1, 2)), next(WORKLOAD.batches(0, 1, 2)), strict=True
    ):
        assert torch.equal(ours, theirs)
