"""Whole graphs of real TensorFlow, run by our kernels, give TensorFlow's values."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.golden_cases import CASES, GOLDEN
from tests.ops.graph_runner import GraphRunner
from tracer.model.graph import Literal
from tracer.model.graph_json import read_graph_file
from tracer.model.literal import value_of
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.infer import infer_specs


def _path(case: str) -> Path:
    return GOLDEN / f"{case}__grpc.json"


def _plain(value: Any) -> Any:
    if isinstance(value, Literal):
        return value_of(value)
    return None if value is None else value.tolist()


@pytest.mark.parametrize("case", CASES)
def test_a_golden_graph_gives_tensorflows_values(case: str) -> None:
    file = read_graph_file(_path(case))
    runner = GraphRunner(file.graph)
    if file.run.init:
        runner.run(file.run.init)
    feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}

    got = runner.run(*file.run.names, feeds=feeds)

    expected = json.loads(_path(case).read_text())["result"]
    for name, value in zip(file.run.names, got, strict=True):
        if expected[name] is None:  # a target: TF gives nothing, we may give the new value
            continue
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(
                value, torch.tensor(expected[name], dtype=value.dtype), rtol=1e-6, atol=1e-6
            )
        else:
            assert _plain(value) == expected[name]


@pytest.mark.parametrize("case", CASES)
def test_inferred_specs_are_those_of_the_values(case: str) -> None:
    file = read_graph_file(_path(case))
    runner = GraphRunner(file.graph)
    if file.run.init:
        runner.run(file.run.init)
    feeds = {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}
    specs = infer_specs(file.graph)

    values = runner.run(*file.run.names, feeds=feeds)

    for name, value in zip(file.run.names, values, strict=True):
        node, _, port = name.partition(":")
        if isinstance(value, torch.Tensor) and specs[node]:
            spec = specs[node][int(port or 0)]
            assert (spec.dtype, spec.shape) == (str(value.dtype)[6:], tuple(value.shape))
