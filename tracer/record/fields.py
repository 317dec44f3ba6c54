"""Which record field or flag becomes which attribute: one table for file, columns and tests."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracer.model.schema import SPAN_KINDS
from tracer.model.trace_folder import Flag
from tracer.record.drain import Records, SiteInfo

WAIT: Final = "vizdist.wait_ns"
VERSION: Final = "vizdist.variable.version"
EXTRA: Final = "extra"

#: record fields that may be absent, and what they are called outside; a 0 is absent
FIELD_ATTRIBUTES: Final = {
    "parent": "",
    "link": "",
    "step": "vizdist.step.number",
    "ready": "vizdist.ready_ns",
    "bytes": "vizdist.bytes",
    "key": "vizdist.rendezvous.key",
    EXTRA: "",
}
FLAG_ATTRIBUTES: Final = {
    Flag.DEAD: "vizdist.dead",
    Flag.REMOTE: "vizdist.remote",
    Flag.DEFERRED: "vizdist.deferred",
    Flag.UNFINISHED: "vizdist.unfinished",
}
EDGE_FLAGS: Final = {"control": Flag.CONTROL, "feed": Flag.CLIENT_EDGE, "fetch": Flag.CLIENT_EDGE}


def extra_of(kind: str) -> str:
    """The attribute that the field `extra` is for this kind; empty: none."""
    return SPAN_KINDS[kind].extra if kind else ""


def present_bits(records: Records, sites: Sequence[SiteInfo]) -> npt.NDArray[np.uint32]:
    """Per record, a bit for each row of FIELD_ATTRIBUTES that it has."""
    bits = np.zeros(len(records), np.uint32)
    for position, name in enumerate(FIELD_ATTRIBUTES):
        bits |= (records[name] != 0).astype(np.uint32) << position
    # a recv that waited for nothing waited 0 ns: that is told, other zeros are not
    waits = np.array([extra_of(site.kind) == WAIT for site in sites])[records["site"]]
    waits &= (records["flags"] & Flag.UNFINISHED) == 0
    bits |= waits.astype(np.uint32) << (len(FIELD_ATTRIBUTES) - 1)
    return bits


def present_fields(bits: int) -> list[str]:
    return [name for position, name in enumerate(FIELD_ATTRIBUTES) if bits >> position & 1]


def field_attributes(kind: str, bits: int, flags: int) -> Iterator[tuple[str, str]]:
    """(record field, attribute) of the numbers and texts that such a record has."""
    for name in present_fields(bits):
        attribute = extra_of(kind) if name == EXTRA else FIELD_ATTRIBUTES[name]
        if attribute:
            yield name, attribute
    if flags & Flag.UNFINISHED:
        yield "end", "vizdist.last_seen_ns"


def flag_attributes(flags: int) -> Iterator[str]:
    """Attributes that are true."""
    return (name for flag, name in FLAG_ATTRIBUTES.items() if flags & flag)


def site_flags(site: SiteInfo) -> int:
    """Flags that follow from the site's attributes."""
    edge: Any = site.attributes.get("vizdist.edge.kind", "")
    return EDGE_FLAGS.get(edge, 0)
