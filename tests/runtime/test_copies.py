"""What a step tells of the copies of distributed variables: equal bytes have equal prints."""

import json

import pytest
import torch

from tests.fakes import SpanData, recorded
from tests.strategies.loss_curve import perceptron
from tests.training.trained import trained
from tracer.model.step import trace_of_step
from tracer.runtime.copies import MOST_BYTES, Copies, Copy, fingerprint
from tracer.runtime.resource_manager import TaskVariable

DEVICES = ("cpu:0", "cpu:1", "cpu:2")


def prints(span: SpanData) -> dict[str, str]:
    told = json.loads(str(span.attributes["vizdist.variable.copies"]))
    return {name: print_ for name, _device, _version, print_, *_ in told}


@pytest.fixture(scope="module")
def told() -> list[SpanData]:
    run = trained(perceptron(0.9), "mirrored", 3, devices=DEVICES)
    return [span for span in run.spans if span.kind == "variable.copies"]


def test_every_recorded_step_tells_every_copy_once(told: list[SpanData]) -> None:
    assert len(told) == 3
    names = set(prints(told[0]))
    assert {"fc1/weight", "fc1/weight/replica_1", "fc1/weight/replica_2"} <= names
    assert all(set(prints(span)) == names for span in told)


def test_mirrored_copies_have_equal_prints_after_every_step(told: list[SpanData]) -> None:
    for span in told:
        found = prints(span)
        for name in ("fc1/weight", "fc1/bias", "fc2/weight", "fc2/bias"):
            assert len({found[name], found[f"{name}/replica_1"], found[f"{name}/replica_2"]}) == 1


def test_a_step_changes_the_prints(told: list[SpanData]) -> None:
    assert prints(told[0])["fc1/weight"] != prints(told[1])["fc1/weight"]


def test_one_copy_alone_tells_nothing() -> None:
    run = trained(perceptron(0.0), "one_device", 2)
    assert not [span for span in run.spans if span.kind == "variable.copies"]


def test_a_print_is_of_the_bytes_alone() -> None:
    values = torch.arange(12, dtype=torch.float32)
    assert fingerprint(values) == fingerprint(values.reshape(3, 4))
    assert fingerprint(values.reshape(3, 4).t()) == fingerprint(
        values.reshape(3, 4).t().contiguous()
    )
    assert fingerprint(values) != fingerprint(values + 1)
    assert len(fingerprint(values.to(torch.bfloat16))) == 8


def told_of(*copies: Copy) -> list[list[object]]:
    with recorded() as recording:
        Copies(recording.recorder, copies).tell(trace_of_step("test", "run", 1))
        (span,) = recording.spans(at_end=True)
    told: list[list[object]] = json.loads(str(span.attributes["vizdist.variable.copies"]))
    return told


def test_a_step_prints_no_more_than_its_bytes_and_the_smallest_variables_first() -> None:
    sizes = {"large": MOST_BYTES // 2, "small": 8, "medium": MOST_BYTES // 4}
    copies = [
        Copy(name, f"{name}/{number}", "CPU:0", holding(torch.zeros(size, dtype=torch.uint8)))
        for number in range(2)
        for name, size in sizes.items()
    ]
    names = [name for name, *_ in told_of(*copies)]
    assert names == ["small/0", "medium/0", "small/1", "medium/1"]


def test_a_complex_number_is_told_by_its_print_alone() -> None:
    (entry,) = told_of(Copy("c", "c", "CPU:0", holding(torch.tensor(1 + 2j))))
    assert entry == ["c", "CPU:0", 0, fingerprint(torch.tensor(1 + 2j))]


def holding(value: torch.Tensor) -> TaskVariable:
    variable = TaskVariable("held")
    variable.value = value
    return variable
