"""Which record field or flag becomes which attribute: one table for file, columns and tests."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tracer.model.schema import SPAN_KINDS
from tracer.model.trace_folder import Flag
from tracer.record.drain import Records, SiteInfo
from tracer.record.keys import FRAME_ID, ITERATION, KEY, Keys, tells

WAIT: Final = "vizdist.wait_ns"
VERSION: Final = "vizdist.variable.version"
EXTRA: Final = "extra"

#: record fields that may be absent, and what they are called outside; a 0 is absent. A key is one
#: of a rendezvous where the kind has such; `frame` and `iteration` are what its end says
FIELD_ATTRIBUTES: Final = {
    "parent": "",
    "link": "",
    "step": "vizdist.step.number",
    "ready": "vizdist.ready_ns",
    "bytes": "vizdist.bytes",
    "key": KEY,
    "frame": FRAME_ID,
    "iteration": ITERATION,
    EXTRA: "",
}
_OF_THE_KEY: Final = (KEY, FRAME_ID, ITERATION)
FLAG_ATTRIBUTES: Final = {
    Flag.DEAD: "vizdist.dead",
    Flag.REMOTE: "vizdist.remote",
    Flag.DEFERRED: "vizdist.deferred",
    Flag.UNFINISHED: "vizdist.unfinished",
    Flag.DROPPED: "vizdist.dropped",
}
EDGE_FLAGS: Final = {"control": Flag.CONTROL, "feed": Flag.CLIENT_EDGE, "fetch": Flag.CLIENT_EDGE}


def extra_of(kind: str) -> str:
    """The attribute that the field `extra` is for this kind; empty: none."""
    return SPAN_KINDS[kind].extra if kind else ""


def present_bits(records: Records, sites: Sequence[SiteInfo], keys: Keys) -> npt.NDArray[np.uint32]:
    """Per record, a bit for each row of FIELD_ATTRIBUTES that it has."""
    bits = np.zeros(len(records), np.uint32)
    is_in_loop = keys.frames(records["key"]) != 0
    for position, name in enumerate(FIELD_ATTRIBUTES):
        is_there = is_in_loop if name in ("frame", "iteration") else records[name] != 0
        bits |= is_there.astype(np.uint32) << position
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
        if attribute and (attribute not in _OF_THE_KEY or tells(kind, attribute)):
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
