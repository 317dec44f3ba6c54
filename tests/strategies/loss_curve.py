"""The digits perceptron from TensorFlow's first weights, on the batches that TensorFlow had."""

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from tracer.capture_graph.capture import Batch, Evaluation
from tracer.capture_graph.optimizers import SGD
from tracer.workloads.digits_mlp import DigitsMLP
from tracer.workloads.workload import Workload

GOLDEN = Path(__file__).parent.parent / "golden"
CURVES = json.loads((GOLDEN / "c_loss_curve.json").read_text())["runs"]
STEPS = 20
VARIABLES = {"fc1/weight": "w1", "fc1/bias": "b1", "fc2/weight": "w2", "fc2/bias": "b2"}


def curve(momentum: float, replicas: int) -> list[float]:
    losses: list[float] = CURVES[f"momentum={momentum} replicas={replicas}"]["loss"]
    return losses


def perceptron(momentum: float, evaluation: Evaluation | None = None) -> Workload:
    return Workload(
        make_module=lambda _: _module(),
        loss=functional.cross_entropy,
        optimizer=SGD(0.5, momentum),
        batches=lambda _seed, _worker, _workers: _batches(),
        evaluation=lambda: evaluation,
    )


def _module() -> DigitsMLP:
    module = DigitsMLP()
    with np.load(GOLDEN / "c_mlp_init.npz") as first:
        weights = {name: torch.from_numpy(first[name].T.copy()) for name in first}
    module.load_state_dict(
        {variable.replace("/", "."): weights[name] for variable, name in VARIABLES.items()}
    )
    return module


def _batches() -> Iterator[Batch]:
    from sklearn.datasets import load_digits  # noqa: PLC0415 (takes a second)

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.RandomState(1).permutation(1797)[: STEPS * 64].reshape(STEPS, 64)
    x = torch.from_numpy(pixels / 16).float()
    y = torch.from_numpy(labels).long()
    return cycle((x[rows], y[rows]) for rows in torch.from_numpy(order))
