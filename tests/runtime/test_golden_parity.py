"""Every graph that real TensorFlow ran, run by us: the same cut, the same values, the same errors.

All golden files are walked; one can be left out only by a row of `LEFT_OUT`, with its reason.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from tests.clusters import running_cluster
from tests.cuts import cut_of
from tests.golden_cases import GOLDEN
from tests.passes.test_golden_partitions import given, golden
from tracer.model.cluster import LOCALHOST, ClusterSpec
from tracer.model.graph import Literal
from tracer.model.graph_json import GraphFile
from tracer.model.literal import value_of
from tracer.ops.dtypes import literal_to_tensor
from tracer.ops.kernel import OpDef, OpError, direct
from tracer.ops.registry import lookup
from tracer.passes.describe import describe_graph_file
from tracer.passes.frames import CONTROL_FLOW
from tracer.passes.optimize import named_passes
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import Session

Row = dict[str, Any]

#: (golden file, what is not compared) → why
LEFT_OUT: dict[tuple[str, str], str] = {}

FILES = sorted(path.stem for path in GOLDEN.glob("*__*.json"))
COMPARED = {"cut": "summary", "values": "result", "error": "error"}  #: by the part that is there
CODES = {3: "INVALID_ARGUMENT", 9: "FAILED_PRECONDITION", 13: "INTERNAL"}
EXECUTORS = ("generated", "queue")


def files_with(comparison: str) -> list[str]:
    part = COMPARED[comparison]
    return [name for name in FILES if part in golden(name) and (name, comparison) not in LEFT_OUT]


def runs_of(comparison: str) -> Iterator[tuple[str, str, str]]:
    """(file, executor, kind of cluster): all executors near; over gRPC the usual one."""
    for name in files_with(comparison):
        ops = {node["op"] for node in golden(name)["client_graph"]}
        for executor in EXECUTORS[: 1 if ops.intersection(CONTROL_FLOW) else 2]:
            yield name, executor, "near"
        if name.endswith("__grpc"):
            yield name, EXECUTORS[0], "grpc"


def passes_of(name: str) -> tuple[str, ...]:
    """TensorFlow copies small constants also where optimizers are off."""
    optimized = ",fold_constants" if "_optimized" in name else ""
    return named_passes(f"replicate_small_constants{optimized}")


def python_function(x: torch.Tensor) -> torch.Tensor:
    """What the golden graph's PyFunc called, which is nothing that a graph may name."""
    if x < 0:
        raise OpError("INVALID_ARGUMENT", "ValueError: boom in py_func")
    return x


PY_FUNC = direct("PyFunc", python_function)


def with_py_func(name: str) -> OpDef:
    return PY_FUNC if name == PY_FUNC.name else lookup(name)


@contextmanager
def session_of(name: str, file: GraphFile, executor: str, kind: str) -> Iterator[Session]:
    spec = ClusterSpec.of_counts(**{LOCALHOST: 1}) if file.is_direct else file.cluster
    counts = Counter(device.task_name for device in file.devices)
    with running_cluster(
        kind,
        spec,
        executor=executor,
        lookup=with_py_func,
        passes=passes_of(name),
        devices={task: ("cpu:0",) * count for task, count in counts.items()},
    ) as cluster:
        yield cluster.session(file.graph, file.client_device.task_name)


def feeds_of(file: GraphFile) -> dict[str, torch.Tensor]:
    return {name: literal_to_tensor(value) for name, value in file.run.feeds.items()}


def same_values(names: Sequence[str], values: Sequence[Any], expected: Row) -> None:
    """Fails where a step gave another value than TensorFlow's."""
    assert {*names} == expected.keys()
    for fetch, value in zip(names, values, strict=True):
        if expected[fetch] is None or value is None:
            assert value is expected[fetch]
        elif isinstance(value, Literal):
            assert value_of(value) == expected[fetch]
        else:
            wanted = torch.tensor(expected[fetch], dtype=value.dtype)
            torch.testing.assert_close(value, wanted, equal_nan=True)


@pytest.mark.parametrize("name", files_with("cut"))
def test_a_graph_is_cut_as_tensorflow_cuts_it(name: str) -> None:
    raw = golden(name)
    got = describe_graph_file(given(name), passes_of(name))
    assert cut_of(raw, got) == cut_of(raw, raw["summary"])


@pytest.mark.parametrize(("name", "executor", "kind"), list(runs_of("values")))
def test_a_step_gives_what_tensorflow_gave(name: str, executor: str, kind: str) -> None:
    file, expected = given(name), golden(name)["result"]
    with session_of(name, file, executor, kind) as session:
        if file.run.init:
            session.run(file.run.init)
        values = session.run(file.run.names, feeds_of(file))
    same_values(file.run.names, values, expected)


def said(message: str) -> str:
    """What TensorFlow's kernel or runtime said, without where it was and what followed from it."""
    lines = message.splitlines()
    node = next((at for at, line in enumerate(lines) if "[[{{node" in line), len(lines))
    return re.sub(r"^ *\(0\) [A-Z_]+: ", "", lines[node - 1])


def without_numbers(message: str) -> str:
    """Steps and incarnations are numbers by chance."""
    return re.sub(r"step \d+|;[0-9a-f]{16};", "#", message)


@pytest.mark.parametrize(("name", "executor", "kind"), list(runs_of("error")))
def test_a_step_fails_as_tensorflows_did(name: str, executor: str, kind: str) -> None:
    file, expected = given(name), golden(name)["error"]
    with session_of(name, file, executor, kind) as session, pytest.raises(StepError) as caught:
        session.run(file.run.names, feeds_of(file))
    error = caught.value
    assert error.code == CODES[expected["error_code"]]
    assert expected["op"] in (error.node, None)  # none where TensorFlow blames the client's end
    words = without_numbers(said(expected["message"]))
    assert without_numbers(error.message).startswith(words)


def test_every_golden_file_is_compared_in_some_way() -> None:
    compared = {name for comparison in COMPARED for name in files_with(comparison)}
    assert compared == set(FILES)
    assert all(name in FILES and reason for (name, _), reason in LEFT_OUT.items())
