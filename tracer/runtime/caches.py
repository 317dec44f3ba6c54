"""Caches: what was made once is found again, and the trace says whether it was.

Two forms. A `Cache` holds what is looked up rarely (a channel, a stub, a graph, a kernel) and
records each look-up. A `Tally` only counts, for tables that every step asks; the counts are
recorded when a session ends, so that a step pays for no span.
"""

import threading
from collections.abc import Callable, Iterable
from itertools import count
from typing import Generic, TypeVar

from tracer.model.step import SpanContext
from tracer.record.open_span import RareSpan
from tracer.record.recorder import NO_RECORDER, Recorder

K = TypeVar("K")
V = TypeVar("V")

_NOWHERE = SpanContext(0, 0, sampled=False)


class _Counter:
    """Counts without a lock: one step of an iterator, which no thread can interrupt."""

    __slots__ = ("_count", "_lock", "_reads", "up")

    def __init__(self) -> None:
        self._count = count()
        self._lock = threading.Lock()
        self._reads = 0
        self.up: Callable[[], int] = self._count.__next__

    def read(self) -> int:
        with self._lock:  # reading takes a number too
            self._reads += 1
            return self.up() - self._reads + 1


class Tally:
    """How often a cache was asked; any thread may call `hit` and `miss`."""

    __slots__ = ("_hits", "_misses", "hit", "miss", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._hits, self._misses = _Counter(), _Counter()
        self.hit, self.miss = self._hits.up, self._misses.up

    @property
    def hits(self) -> int:
        return self._hits.read()

    @property
    def misses(self) -> int:
        return self._misses.read()


def tell_totals(
    recorder: Recorder, context: SpanContext, tallies: Iterable[Tally], session: str = ""
) -> None:
    """`session` is the handle of the one whose caches these are, "" of caches of the task."""
    for tally in tallies:
        with recorder.span("cache.total", context, name=tally.name) as span:
            _tell_session(span, session)
            span.set("vizdist.cache.hits", tally.hits)
            span.set("vizdist.cache.misses", tally.misses)


def tell_lookup(
    recorder: Recorder, context: SpanContext, cache: str, key: str, *, hit: bool, session: str = ""
) -> None:
    with recorder.span("cache.get", context, name=cache) as span:
        _tell_session(span, session)
        span.set("vizdist.cache.key", key)
        span.set("vizdist.cache.hit", hit)


def _tell_session(span: RareSpan, session: str) -> None:
    if session:
        span.set("vizdist.session.handle", session)


class Cache(Generic[K, V]):
    """Get or make. `make` runs under the cache's lock, once a key; if it raises, nothing is kept.

    `told` is how a key is called in the trace, `session` the handle of the one that has the cache.
    """

    def __init__(
        self,
        name: str,
        recorder: Recorder = NO_RECORDER,
        told: Callable[[K], str] = str,
        session: str = "",
    ) -> None:
        self.tally = Tally(name)
        self._recorder = recorder
        self._told = told
        self._session = session
        self._lock = threading.Lock()
        self._held: dict[K, V] = {}

    def get(self, key: K, make: Callable[[], V], context: SpanContext = _NOWHERE) -> V:
        with self._lock:
            hit = key in self._held
            if context.sampled:
                told, session = self._told(key), self._session
                name = self.tally.name
                tell_lookup(self._recorder, context, name, told, hit=hit, session=session)
            (self.tally.hit if hit else self.tally.miss)()
            if not hit:
                self._held[key] = make()
            return self._held[key]

    def __contains__(self, key: K) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def values(self) -> list[V]:
        return list(self._held.values())

    def clear(self) -> list[V]:
        """Empties it; returns what it held."""
        held, self._held = self._held, {}
        return list(held.values())
