"""A mirrored or centrally stored model takes the very steps that one replica takes alone."""

from itertools import cycle, product

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.strategies.loss_curve import STEPS, VARIABLES, curve, perceptron
from tests.training.trained import Run, trained
from tracer.capture_graph.optimizers import SGD
from tracer.workloads.workload import Workload

#: bytes of the variables of the perceptron
S_BYTES = 4 * (64 * 32 + 32 + 32 * 10 + 10)
LOSS_BYTES = 4
#: what a replica is fed comes from the device of the client: x in float32, y in int64
BATCH_BYTES = {
    "CPU:1": 22 * (64 * 4 + 8),
    "CPU:2": 20 * (64 * 4 + 8),
    "CPU:1 of 2": 32 * (64 * 4 + 8),
}


def run(strategy: str, replicas: int, momentum: float = 0.0, steps: int = 2, **options: str) -> Run:
    devices = tuple(f"cpu:{number}" for number in range(replicas))
    return trained(perceptron(momentum), strategy, steps, devices=devices, options=options)


#: strategy, replicas, momentum; three replicas take 22, 22 and 20 rows
CASES = [
    *product(["mirrored"], [1, 2, 3, 4], [0.0, 0.9]),
    *product(["central_storage"], [2, 3], [0.0, 0.9]),
]
IN_SHORT = [("mirrored", 3, 0.9), ("central_storage", 2, 0.0)]


@pytest.mark.parametrize(
    ("strategy", "replicas", "momentum"),
    [pytest.param(*c, marks=[] if c in IN_SHORT else [pytest.mark.slow]) for c in CASES],
)
def test_losses_are_those_of_tensorflow(strategy: str, replicas: int, momentum: float) -> None:
    losses = run(strategy, replicas, momentum, STEPS).fitted.losses
    assert losses == pytest.approx(curve(momentum, 1), abs=2e-6)
    assert losses == pytest.approx(curve(momentum, replicas), abs=2e-6)


@pytest.mark.parametrize(
    "cross_device_ops",
    [
        "ring",
        *(
            pytest.param(o, marks=pytest.mark.slow)
            for o in ("tree", "reduce_to_one", "hierarchical_copy")
        ),
    ],
)
def test_copies_stay_equal_bit_by_bit(cross_device_ops: str) -> None:
    variables = run("mirrored", 3, 0.9, STEPS, cross_device_ops=cross_device_ops).variables
    for name in VARIABLES:
        for replica in (1, 2):
            assert torch.equal(variables[name], variables[f"{name}/replica_{replica}"])


def moved(run: Run, source: str, target: str) -> int:
    """Bytes from one device to another in the second step."""
    keys = [
        (
            span.attributes["vizdist.rendezvous.key"].split(";"),
            span.attributes.get("vizdist.bytes", 0),
        )
        for span in run.spans
        if span.kind == "rendezvous.recv" and span.step == 2
    ]
    return sum(n for key, n in keys if key[0].endswith(source) and key[2].endswith(target))


def test_the_device_that_sums_takes_and_gives_all_gradients_of_the_others() -> None:
    made = run("mirrored", 3, cross_device_ops="reduce_to_one")
    for other in ("CPU:1", "CPU:2"):
        assert moved(made, other, "CPU:0") == S_BYTES + LOSS_BYTES
        assert moved(made, "CPU:0", other) == S_BYTES + BATCH_BYTES[other]
        assert moved(made, "CPU:1", "CPU:2") == 0


def test_variables_in_one_place_go_to_every_other_replica_and_gradients_come_back() -> None:
    made = run("central_storage", 2)
    assert moved(made, "CPU:0", "CPU:1") == S_BYTES + BATCH_BYTES["CPU:1 of 2"]
    assert moved(made, "CPU:1", "CPU:0") == S_BYTES + LOSS_BYTES


def test_a_ring_sends_each_replica_its_part_of_two_rounds() -> None:
    spans = run("mirrored", 3, cross_device_ops="ring").spans
    reduced = [s for s in spans if s.kind == "collective.all_reduce" and s.step == 2]
    assert len(reduced) == 3
    assert sum(s.attributes["vizdist.bytes"] for s in reduced) == 2 * (3 - 1) * S_BYTES


def test_losses_of_replicas_are_told_beside_that_of_the_global_batch() -> None:
    spans = run("mirrored", 3).spans
    first = next(s for s in spans if s.kind == "session.run" and s.step == 1)
    own = [float(text) for text in first.attributes["vizdist.replica.losses"].split(",")]
    rows = (22, 22, 20)
    mean = sum(loss * n for loss, n in zip(own, rows, strict=True)) / 64
    assert mean == pytest.approx(first.attributes["vizdist.loss"], abs=1e-6)


def four_samples(replicas: int) -> float:
    """The weight after one step of y = w x from 0 on four samples, learning rate 0.1."""
    x = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    workload = Workload(
        make_module=lambda _: zeroed(nn.Linear(1, 1, bias=False)),
        loss=functional.mse_loss,
        optimizer=SGD(0.1),
        batches=lambda _seed, _worker, _workers: cycle([(x, 3 * x)]),
    )
    devices = tuple(f"cpu:{number}" for number in range(replicas))
    made = trained(workload, "mirrored", 1, devices=devices, trace="none")
    return made.variables["weight"].item()


def zeroed(module: nn.Linear) -> nn.Linear:
    nn.init.zeros_(module.weight)
    return module


def test_one_step_is_the_same_on_any_number_of_replicas() -> None:
    alone = 0.1 * 2 * (3 + 12 + 27 + 48) / 4
    assert [four_samples(n) for n in (1, 2, 4)] == pytest.approx([alone] * 3, abs=1e-6)


def test_a_replica_without_rows_takes_the_same_step() -> None:
    assert four_samples(5) == pytest.approx(four_samples(1), abs=1e-6)
    assert four_samples(3) == pytest.approx(four_samples(1), abs=1e-6)
