"""A batch of another shape is captured again, over the same variables, and the trace says why."""

import math
from dataclasses import replace
from functools import partial
from itertools import chain, repeat

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.built import given
from tests.training.trained import eager, trained
from tracer.capture_graph.capture import Batch, Evaluation
from tracer.capture_graph.optimizers import SGD
from tracer.model.graph import Graph
from tracer.runtime.interfaces import StepError
from tracer.runtime.session import NO_TRACING, Session
from tracer.strategies.distributed_step import DistributedStep
from tracer.strategies.inputs.step_input import StepInput
from tracer.training.signatures import MANY, MOST_KEPT, SignatureCache, warning_of
from tracer.training.trainer import Fit, Trainer
from tracer.workloads.batching import Reading, batches_of, row_batches
from tracer.workloads.workload import Workload, seeded

RANDOM = torch.Generator().manual_seed(5)
NINE: Batch = (torch.randn(9, 3, generator=RANDOM), torch.randn(9, 2, generator=RANDOM))
EPOCHS = 2
WHOLE = "x float32[4,3], y float32[4,2]"
SHORT = "x float32[1,3], was float32[4,3]; y float32[1,2], was float32[4,2]"


def nine_rows(**changes: object) -> Workload:
    """A linear model with momentum on nine rows in batches of four: 4, 4, 1."""
    fields: dict[str, object] = {
        "make_module": seeded(lambda: nn.Linear(3, 2)),
        "loss": functional.mse_loss,
        "optimizer": SGD(0.1, 0.9),
        "batches": row_batches(lambda: NINE, Reading(4)),
    }
    return Workload(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["one_device", "parameter_server_v1"])
def test_nine_rows_in_batches_of_four_update_as_eager_torch_does(strategy: str) -> None:
    workload, steps = nine_rows(), 3 * EPOCHS
    run = trained(workload, strategy, steps)
    module = workload.make_module(0)
    losses = eager(workload, torch.optim.SGD(module.parameters(), 0.1, 0.9), module, steps)
    assert run.fitted.losses == pytest.approx(losses, abs=1e-6)
    for name, value in module.named_parameters():
        torch.testing.assert_close(run.variables[name], value, rtol=0, atol=1e-6)
    rows = [s.attributes["vizdist.batch"] for s in run.spans if s.kind == "data.next"]
    assert rows == [4, 4, 1] * EPOCHS


def test_the_trace_says_which_signature_was_captured_in_which_step_and_why() -> None:
    judged = Evaluation((NINE[0][:2], NINE[1][:2]), functional.mse_loss)
    run = trained(nine_rows(evaluation=lambda: judged), "one_device", 6)
    captures = [span for span in run.spans if span.kind == "graph.capture"]
    assert [
        (s.step, s.attributes["vizdist.signature"], s.attributes["vizdist.capture.reason"])
        for s in captures
    ] == [
        (0, f"train {WHOLE}; eval x float32[2,3], y float32[2,2]", "first batch"),
        (3, "train x float32[1,3], y float32[1,2]", SHORT),
    ]
    steps = [span.step for span in run.spans if span.kind == "session.run"]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert len([span for span in run.spans if span.kind == "graph.register"]) == 2


def test_a_capture_in_a_step_that_is_not_recorded_belongs_to_the_run() -> None:
    run = trained(nine_rows(), "one_device", 4, trace="1-2")
    captures = [span for span in run.spans if span.kind == "graph.capture"]
    assert [span.step for span in captures] == [0, 0]


def test_a_batch_without_rows_is_left_out() -> None:
    x, y = NINE
    data = [(x[:0], y[:0]), (x[:4], y[:4]), (x[4:4], y[4:4]), (x[4:8], y[4:8])]
    run = trained(nine_rows(batches=partial(batches_of, data)), "one_device", 4)
    assert run.fitted.signatures == [WHOLE]
    assert all(map(math.isfinite, run.fitted.losses))


def test_data_that_end_say_at_which_step() -> None:
    two = (NINE[0][:2], NINE[1][:2])
    workload = nine_rows(batches=lambda *_: chain(repeat(two, 3), repeat((two[0][:0],) * 2, 5)))
    with pytest.raises(StepError, match="the data ended before step 4") as refused:
        trained(workload, "one_device", 9)
    assert refused.value.code == "OUT_OF_RANGE"


class Opened:
    """Steps that know their signature, and which of them are open."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str]] = []
        self.closed: list[str] = []
        self.cache = SignatureCache[str](self.open, self.closed.append)

    def open(self, given: StepInput, signature: str, why: str) -> str:
        self.log.append((signature, why))
        return signature

    def take(self, *rows: int) -> None:
        for count in rows:
            self.cache.step_for(given(rows_of(count)))


def rows_of(count: int) -> Batch:
    return torch.zeros(count, 1), torch.zeros(count)


def test_a_known_signature_is_opened_once() -> None:
    opened = Opened()
    opened.take(4, 4, 1, 4, 1)
    assert [signature for signature, _ in opened.log] == opened.cache.seen
    assert len(opened.log) == 2


def test_the_least_recently_used_of_too_many_makes_room_and_comes_back_with_a_reason() -> None:
    opened = Opened()
    opened.take(*range(1, MOST_KEPT + 1), 1, MOST_KEPT + 1, 2)
    assert opened.closed == ["x float32[2,1], y float32[2]", "x float32[3,1], y float32[3]"]
    signature, why = opened.log[-1]
    assert signature == "x float32[2,1], y float32[2]"
    assert f"one of {MOST_KEPT} kept before was dropped" in why
    opened.cache.close()
    assert len(opened.closed) == len(opened.log)


def test_another_global_batch_is_another_step_and_the_reason_says_so() -> None:
    opened = Opened()
    for global_batch in (8, 7):
        opened.cache.step_for(replace(given(rows_of(4)), global_batch=global_batch))
    assert [why for _, why in opened.log] == ["first batch", "global batch 7, was 8"]
    assert len(opened.cache.seen) == 1


def test_a_step_that_lost_its_session_is_kept_for_its_own_global_batch_alone() -> None:
    captured: list[int] = []

    def capture(given: StepInput, *_: object) -> DistributedStep:
        captured.append(given.global_batch)
        return DistributedStep(Graph(()), (), (), "loss:0", "train", "init")

    def lost(*_: object) -> Session:
        raise StepError("UNAVAILABLE", "the task is gone")

    first = given(rows_of(4))
    trainer = Trainer(lost, capture, first, None, NO_TRACING, Fit(1))
    for global_batch in (8, 8, 7):
        with pytest.raises(StepError, match="gone"):
            trainer._steps.step_for(replace(first, global_batch=global_batch))
    assert captured == [8, 7]


def test_a_change_of_dtype_is_a_change_of_signature() -> None:
    opened = Opened()
    x, y = rows_of(2)
    opened.cache.step_for(given((x, y)))
    opened.cache.step_for(given((x.double(), y)))
    assert opened.log[1][1] == "x float64[2,1], was float32[2,1]"


def test_many_signatures_are_worth_a_warning_that_names_them() -> None:
    seen = [f"x float32[{n},1]" for n in range(MANY)]
    assert warning_of(seen[:-1]) == ""
    assert "6 signatures" in warning_of(seen)
    assert "x float32[5,1]" in warning_of(seen)
    assert "and 4 more" in warning_of([*seen, *seen[:4]])


def test_dropout_draws_what_eager_torch_draws_also_in_a_short_batch() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    workload = nine_rows(make_module=seeded(make), optimizer=SGD(0.1))
    run = trained(workload, "one_device", 6)
    module = workload.make_module(0)
    losses = eager(workload, torch.optim.SGD(module.parameters(), 0.1), module, 6)
    assert run.fitted.losses == pytest.approx(losses, abs=1e-6)
