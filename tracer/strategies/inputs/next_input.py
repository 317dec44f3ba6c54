"""Takes a worker's next input, and records who got which examples."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tracer.model.example_ids import encode
from tracer.model.step import SpanContext
from tracer.ops.kernel import OpError
from tracer.record.recorder import Recorder
from tracer.runtime.interfaces import StepError
from tracer.strategies.inputs.prefetch import Prefetched
from tracer.strategies.inputs.step_input import ReplicaInput, StepInput


def next_input(
    inputs: Iterator[StepInput], number: int, recorder: Recorder, context: SpanContext
) -> StepInput:
    """That of step `number`, as `data.next` ⊃ `data.copy`, one a replica.

    Raises StepError: OUT_OF_RANGE at the end of the data, else the code of what is wrong with them.
    """
    with recorder.span("data.next", context) as span:
        given = _taken(inputs, number)
        if context.sampled:
            for name, value in _told(given).items():
                span.set(name, value)
        if isinstance(inputs, Prefetched):
            span.wait_ns = inputs.waited_ns
            span.set("vizdist.data.ready", inputs.num_ready)
        replicas = tuple(_copied(each, recorder, span.context) for each in given.replicas)
        return replace(given, replicas=replicas)


def first_input(inputs: Iterator[StepInput], recorder: Recorder, context: SpanContext) -> StepInput:
    """The first one, looked at before there are steps; recorded only if it cannot be had."""
    try:
        return _taken(inputs, 1)
    except StepError as error:
        with recorder.span("data.next", context):
            raise error


def _taken(inputs: Iterator[StepInput], number: int) -> StepInput:
    try:
        given = next(inputs, None)
    except OpError as error:
        raise StepError(error.code, error.message) from error
    if given is None:
        raise StepError(
            "OUT_OF_RANGE", f"End of sequence: the data ended before step {number}; let them repeat"
        )
    return given


def _told(given: StepInput) -> dict[str, Any]:
    pipeline = given.pipeline
    return {
        "vizdist.batch": given.num_rows,
        "vizdist.data.global_batch": given.global_batch,
        "vizdist.data.asked": pipeline.sharding.asked.value,
        "vizdist.data.effective": pipeline.sharding.effective.value,
        "vizdist.data.worker": pipeline.worker,
        "vizdist.data.workers": pipeline.workers,
        "vizdist.data.replicas": pipeline.replicas,
        "vizdist.data.files": pipeline.num_files,
        "vizdist.data.cycle": pipeline.cycle,
        "vizdist.data.is_last": given.is_last,
        "vizdist.data.discarded": encode(given.discarded.tolist()),
        "vizdist.data.num_discarded": len(given.discarded),
    }


def _copied(given: ReplicaInput, recorder: Recorder, context: SpanContext) -> ReplicaInput:
    with recorder.span("data.copy", context) as span:
        own = given.owned()
        if context.sampled:
            span.set("vizdist.replica", given.replica)
            span.set("vizdist.batch", len(given))
            span.set("vizdist.data.examples", encode(given.ids.tolist()))
            span.set("vizdist.data.has_value", given.has_value)
    return own
