"""The three parts of a recv: its request travels, its value does not exist yet, its value travels.

A recv from another task is served there by a call; the recorded wait is measured where the value
comes into being, so it begins when the request arrived, not when it was sent. What it does not
count is what came between the request and its wait; a value exists no earlier than the Send that
hands it over begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracer.model.trace_folder import Flag
from vizdist.store.segments import Array
from vizdist.store.spans import Spans
from vizdist.store.trace import Trace


@dataclass(frozen=True, slots=True)
class RecvParts:
    """`recvs` between devices; the request was there at `served` (ns), the value at `exists`."""

    recvs: Spans
    served: Array
    exists: Array

    @property
    def request(self) -> Array:
        requests: Array = self.served - self.recvs.start
        return requests

    @property
    def wait(self) -> Array:
        waits: Array = self.exists - self.served
        return waits

    @property
    def transfer(self) -> Array:
        transfers: Array = self.recvs.end - self.exists
        return transfers


def recv_parts(trace: Trace, spans: Spans) -> RecvParts:
    """Of the recvs among `spans` that bring a value from one device to another."""
    client_edges = (spans.flags & Flag.CLIENT_EDGE) != 0
    recvs = spans.take(spans.is_kind("rendezvous.recv") & ~client_edges)
    calls = spans.take(spans.is_kind("rpc.client"))
    if not len(calls):
        exists = np.clip(value_at(trace, recvs), recvs.start, recvs.end)
        return RecvParts(recvs, recvs.start, exists)
    call = _call_of(recvs, calls)
    server = trace.served_by(calls.span[call])
    known = (calls.parent[call] == recvs.span) & (server >= 0)
    begun, waited = trace.all.start[server], trace.all.wait[server]
    served = np.where(known, np.clip(begun, recvs.start, recvs.end), recvs.start)
    exists = np.maximum(np.where(known, begun + waited, 0), value_at(trace, recvs))
    return RecvParts(recvs, served, np.clip(exists, served, recvs.end))


def parts_of(trace: Trace, place: int) -> RecvParts:
    """Of the recv at this place; of none where it takes what the client feeds or fetches."""
    own = trace.all.span[place]
    calls = np.flatnonzero((trace.all.parent == own) & trace.all.is_kind("rpc.client"))
    return recv_parts(trace, trace.all.take(np.append(place, calls)))


def value_at(trace: Trace, recvs: Spans) -> Array:
    """When the value of each recv came into being: its wait was over, and its Send had begun.

    Where it never came, the end of the recv.
    """
    instants: Array = np.where(never_came(recvs.columns), recvs.end, recvs.start + recvs.wait)
    linked = np.flatnonzero(recvs.link)
    send = trace.places(recvs.link[linked])
    linked, send = linked[send >= 0], send[send >= 0]
    instants[linked] = np.maximum(instants[linked], trace.all.take(send).start)
    return instants


def waited(spans: Spans, came: Array) -> Array:
    """ns until the value of each recv existed, at `came`; of a served call what it recorded."""
    waits = np.where(spans.is_kind("rendezvous.recv"), came - spans.start, spans.wait)
    return np.asarray(np.clip(waits, 0, spans.duration))


def never_came(columns: Mapping[str, Array]) -> Array:
    """Whether a recv was given up, or is not over, and no Send is known to have served it."""
    given_up = (columns["flags"] & (Flag.ERROR | Flag.UNFINISHED)) != 0
    mask: Array = given_up & (columns["link"] == 0)
    return mask


def _call_of(recvs: Spans, calls: Spans) -> Array:
    """For each recv the place of the call that is its child, if it has one."""
    order = np.argsort(calls.parent, kind="stable")
    at = np.searchsorted(calls.parent[order], recvs.span)
    places: Array = order[np.minimum(at, len(order) - 1)]
    return places
