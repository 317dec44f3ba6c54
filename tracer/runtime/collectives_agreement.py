"""What the ranks of a collective must agree on, and the words for it when they do not."""

from collections.abc import Iterable

from tracer.model.collective import Arrival
from tracer.runtime.interfaces import StepError


def difference(first: Arrival, arrival: Arrival) -> StepError | None:
    """What two ranks do not agree on."""
    for name in (
        "kind",
        "devices",
        "of",
        "dtype",
        "merge_op",
        "final_op",
        "algorithm",
        "source",
        "step",
    ):
        if getattr(first, name) != getattr(arrival, name):
            return _disagreement(first, arrival, _NAMES.get(name, name))
    skipped = 1 if first.kind == "all_gather" else 0
    if len(first.shape) != len(arrival.shape) or first.shape[skipped:] != arrival.shape[skipped:]:
        return _disagreement(first, arrival, "shape" if not skipped else "shape beyond axis 0")
    return None


_NAMES = {"kind": "collective", "devices": "group", "of": "tensor", "source": "broadcasting rank"}


def _disagreement(first: Arrival, arrival: Arrival, what: str) -> StepError:
    step = f"; steps {first.step} and {arrival.step}" if first.step != arrival.step else ""
    groups = ""
    if what == "group":
        numbers = f"{len(first.devices)} and {len(arrival.devices)} devices"
        groups = (
            f"; groups of {numbers}, {first.devices} and {arrival.devices}: each counts on others "
            "that have as many devices as itself, so give all workers the same --devices"
        )
    return StepError(
        "INVALID_ARGUMENT",
        f"the ranks of group {arrival.group_key} do not agree on the {what} of instance "
        f"{arrival.instance_key}: {told(first)}, {told(arrival)}{step}{groups}. "
        "No bytes were moved",
    )


def told(arrival: Arrival) -> str:
    merge = f"{arrival.merge_op}, {arrival.final_op}, " if arrival.kind == "all_reduce" else ""
    of = f" of {arrival.of!r}" if arrival.of else ""
    return (
        f"rank {arrival.rank} has {arrival.kind}{of} ({merge}{arrival.algorithm}) of "
        f"{arrival.dtype} {list(arrival.shape)} as instance {arrival.instance_key} at "
        f"{arrival.node}"
    )


def ranks_text(ranks: Iterable[int]) -> str:
    listed = ", ".join(map(str, ranks))
    return f"rank{'s' if ',' in listed else ''} {listed}"
