"""A span as an object, decoded from the rings: for tests and checks, not for the trace file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracer.record.drain import Batch
from tracer.record.fields import field_attributes, flag_attributes, present_bits, site_flags
from tracer.record.lanes import row_text


@dataclass(frozen=True, slots=True)
class SpanData:
    """Times in ns since the epoch, `num_bytes` in bytes; ids are 64-bit, 0 is none."""

    kind: str
    name: str
    task: str
    lane: str
    depth: int
    trace_hi: int
    trace_lo: int
    span: int
    parent: int
    link: int
    step: int
    start: int
    end: int
    ready: int
    num_bytes: int
    key: str
    flags: int
    extra: int
    error: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


def decode(batch: Batch) -> Iterator[SpanData]:
    sites, keys, numbers = batch.home.sites, batch.home.keys, batch.records["key"]
    bits = present_bits(batch.records, sites, keys).tolist()
    frames, iterations = keys.frames(numbers).tolist(), keys.iterations(numbers).tolist()
    told = zip(keys.texts(numbers), frames, iterations, strict=True)
    for record, present, (key, frame, iteration) in zip(batch.records, bits, told, strict=True):
        raw = {name: record[name].item() for name in record.dtype.names}
        site = sites[raw["site"]]
        flags = raw["flags"] | site_flags(site)
        lane, depth = row_text(site.lane, raw["row"])
        raw |= {"key": key, "frame": str(frame), "iteration": iteration}
        attributes = site.attributes | dict.fromkeys(flag_attributes(flags), True)
        for name, attribute in field_attributes(site.kind, present, flags):
            attributes[attribute] = raw[name]
        note = batch.annotations.get(raw["span"])
        if note:
            attributes |= note.attributes
        yield SpanData(
            kind=site.kind,
            name=(note and note.name) or site.name,
            task=batch.home.task,
            lane=lane,
            depth=depth,
            num_bytes=raw["bytes"],
            flags=flags,
            error=note.error if note else "",
            attributes=attributes,
            **{name: raw[name] for name in _SAME},
        )


_SAME = (
    "trace_hi", "trace_lo", "span", "parent", "link",
    "step", "start", "end", "ready", "key", "extra",
)  # fmt: skip
