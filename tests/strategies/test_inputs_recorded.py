"""`data.next` ⊃ `data.copy`: what is told of every input, and how its end and a refusal are."""

import pytest
import torch

from tests.fakes import recorded
from tests.strategies.inputs_golden import elements, files, rows
from tracer.model.example_ids import decode
from tracer.model.step import trace_of_step
from tracer.runtime.interfaces import StepError
from tracer.strategies.inputs.dataset import Table
from tracer.strategies.inputs.distribute import distribute_dataset
from tracer.strategies.inputs.next_input import first_input, next_input


def test_an_input_is_told_with_its_policy_and_each_replica_with_its_examples() -> None:
    inputs = distribute_dataset(rows(elements(9), 8), workers=2, worker=1, replicas=2)
    with recorded() as recording:
        for number in (1, 2):
            next_input(inputs, number, recording.recorder, trace_of_step("r", "worker:1", number))
        spans = recording.spans()
    first, second = (span for span in spans if span.kind == "data.next")
    told = {k.removeprefix("vizdist."): v for k, v in first.attributes.items() if "data" in k}
    assert told == {
        "data.global_batch": 8, "data.asked": "AUTO", "data.effective": "DATA", "data.worker": 1,
        "data.workers": 2, "data.replicas": 2, "data.files": 0, "data.discarded": "0-1,4-5",
        "data.num_discarded": 4, "data.cycle": 1, "data.is_last": False,
    }  # fmt: skip
    copies = [span for span in spans if span.kind == "data.copy"]
    assert [span.parent for span in copies] == [first.span] * 2 + [second.span] * 2
    ids = [decode(span.attributes["vizdist.data.examples"]) for span in copies]
    assert ids == [[2, 3], [6, 7], [], []]
    assert [span.attributes["vizdist.batch"] for span in copies] == [2, 2, 0, 0]


def test_what_a_step_is_not_sampled_for_is_not_told_and_comes_all_the_same() -> None:
    inputs = distribute_dataset(rows(elements(8), 4))
    with recorded() as recording:
        context = trace_of_step("r", "worker:0", 1, sampled=False)
        assert next_input(inputs, 1, recording.recorder, context).num_rows == 4
        assert not [span for span in recording.spans() if span.kind.startswith("data.")]


def test_a_replica_keeps_no_memory_but_its_own() -> None:
    x = torch.rand(64, 1000)
    inputs = distribute_dataset(rows(Table((x, torch.arange(64))), 64), replicas=4)
    with recorded() as recording:
        given = next_input(inputs, 1, recording.recorder, trace_of_step("r", "worker:0", 1))
    for replica in given.replicas:
        part, _ = replica.batch
        assert part.untyped_storage().nbytes() == part.nbytes == 16 * 1000 * 4


def test_the_end_of_the_data_names_the_step_that_had_none() -> None:
    inputs = distribute_dataset(rows(elements(4), 4))
    with recorded() as recording:
        context = trace_of_step("r", "worker:0", 1)
        next_input(inputs, 1, recording.recorder, context)
        with pytest.raises(StepError, match="the data ended before step 2") as caught:
            next_input(inputs, 2, recording.recorder, context)
        *_, last = (span for span in recording.spans() if span.kind == "data.next")
    assert caught.value.code == "OUT_OF_RANGE"
    assert last.error


def test_a_refusal_before_the_first_step_is_in_the_trace() -> None:
    inputs = distribute_dataset(rows(files(8), 4), workers=2)
    with recorded() as recording:
        with pytest.raises(StepError, match=r"only has 1 file\(s\)") as caught:
            first_input(inputs, recording.recorder, trace_of_step("r", "run", 0))
        [span] = [span for span in recording.spans() if span.kind == "data.next"]
    assert caught.value.code == "INVALID_ARGUMENT"
    assert "only has 1 file" in span.error
