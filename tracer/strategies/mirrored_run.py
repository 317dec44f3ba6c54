"""`run`: a function builds its part for each replica (TF `mirrored_run.py`).

One thread a replica, and one baton: a thread builds until it ends or comes to a `merge_call`, then
the next one does. When all are there, the merge is built once for all, and the first goes on:

    replica 0 ──▶┐              ┌──▶┐             ┌──▶ end
    replica 1    └──▶┐          │   └──▶┐         │    └──▶ end
    merge            └──▶ merge ┘       └──▶ merge┘

All this happens while a graph is *built*. Its steps run without any of these threads: what they
built is one graph, whose parts run side by side on the devices of the replicas.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from tracer.strategies.contexts import CrossReplicaContext, entered, named
from tracer.strategies.values import PerReplica, regrouped, replicas_own

if TYPE_CHECKING:
    from tracer.strategies.distribution import Distribution

MERGED, RETURNED = "merge", "returned"

UNEQUAL = (
    "Some replicas made a different number of replica_context().merge_call() calls. "
    "{} returned after {}, and {} would go on in one more with {}: let all make the same calls in "
    "the same order. As in TensorFlow this ends while the graph is built, before any step of it"
)
DIFFERENT = (
    "Replicas meet in replica_context().merge_call() with different functions: replica 0 with "
    "{}, replica {} with {}; let all of them make the same calls in the same order"
)


class _Stopped(BaseException):
    """Another replica failed; a thread that waits for its turn ends by this."""


class _ReplicaThread(threading.Thread):
    """Builds the part of one replica, in turns. `merge` is what it waits for between two."""

    def __init__(
        self,
        distribution: "Distribution",
        replica: int,
        fn: Callable[..., Any],
        args: Sequence[Any],
    ) -> None:
        super().__init__(name=f"replica {replica} builds", daemon=True)
        self._distribution = distribution
        self._replica = replica
        self._work: Callable[[], Any] = lambda: fn(*args)
        self._should_run = threading.Event()
        self._has_paused = threading.Event()
        self._is_stopped = False
        self.is_done = False
        self.merge: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self.result: Any = None  # of the function, or of the last merge, for this replica
        self.error: BaseException | None = None

    def turn(self) -> None:
        """Hands over the baton, and returns when it comes back. Raises what the function raises."""
        self._should_run.set()
        self._has_paused.wait()
        self._has_paused.clear()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Ends it wherever it waits."""
        if self.ident is not None:
            self._is_stopped = True
            self._should_run.set()
            self.join()

    def run(self) -> None:
        try:
            self._await_turn()
            with ExitStack() as scopes:
                context = self._distribution.replica_context(self._replica, self._pause, scopes)
                scopes.enter_context(entered(context))
                self.result = self._work()
            self.merge = None
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 (whoever hands over the baton raises it)
            self.error = error
        finally:
            self.is_done = True
            self._has_paused.set()

    def _pause(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        self.merge = fn, args
        self._has_paused.set()
        self._await_turn()
        return self.result

    def _await_turn(self) -> None:
        self._should_run.wait()
        self._should_run.clear()
        if self._is_stopped:
            raise _Stopped


def call_for_each_replica(
    distribution: "Distribution", fn: Callable[..., Any], args: Sequence[Any]
) -> Any:
    """What `fn` returns on each replica, as PerReplica. Of PerReplica `args` each gets its own.

    Raises what `fn` raises on the first replica that fails; the others end where they are. Raises
    RuntimeError if the replicas do not come to the same merges.
    """
    threads = [
        _ReplicaThread(distribution, replica, fn, [replicas_own(each, replica) for each in args])
        for replica in range(len(distribution.devices))
    ]
    for thread in threads:
        thread.start()
    try:
        turn = 0
        while not all(thread.is_done for thread in threads):
            _all_take_a_turn(distribution, threads, turn)
            if any(thread.is_done for thread in threads):
                if not all(thread.is_done for thread in threads):
                    raise RuntimeError(_unequal(threads, turn))
                break
            _merge(distribution, threads, turn)
            turn += 1
        return PerReplica(tuple(thread.result for thread in threads))
    finally:
        for thread in threads:
            thread.stop()


def _unequal(threads: Sequence[_ReplicaThread], merges: int) -> str:
    done, others = (
        [f"replica {number}" for number, each in enumerate(threads) if each.is_done is is_done]
        for is_done in (True, False)
    )
    fn = next(each.merge[0] for each in threads if not each.is_done and each.merge)
    return UNEQUAL.format(", ".join(done).capitalize(), merges, ", ".join(others), named(fn))


def _all_take_a_turn(
    distribution: "Distribution", threads: Sequence[_ReplicaThread], turn: int
) -> None:
    for replica, thread in enumerate(threads):
        with distribution.building.span("replica.build") as span:
            span.set("vizdist.replica", replica)
            span.set("vizdist.device", distribution.devices[replica])
            span.set("vizdist.replica.turn", turn)
            span.set("vizdist.replica.thread", thread.name)
            before = distribution.num_nodes
            thread.turn()
            span.set("vizdist.graph.nodes", distribution.num_nodes - before)
            span.set("vizdist.replica.paused_by", RETURNED if thread.is_done else MERGED)


def _merge(distribution: "Distribution", threads: Sequence[_ReplicaThread], turn: int) -> None:
    """Builds the merge that all wait for, and leaves to each its own part of what came of it."""
    waiting = [thread.merge for thread in threads]
    assert all(waiting)
    fns, arguments = zip(*(merge for merge in waiting if merge), strict=True)
    _check_same(fns)
    with distribution.building.span("replica.merge") as span:
        span.set("vizdist.replica.turn", turn)
        before = distribution.num_nodes
        with entered(CrossReplicaContext(distribution, distribution.builder)):
            made = fns[0](distribution, *map(regrouped, zip(*arguments, strict=True)))
        span.set("vizdist.graph.nodes", distribution.num_nodes - before)
    for replica, thread in enumerate(threads):
        thread.result = replicas_own(made, replica)


def _check_same(fns: Sequence[Callable[..., Any]]) -> None:
    """Each replica makes a lambda anew, so it is their code that is compared, and whose it is.

    Raises RuntimeError: only one of them is called, and what the others ask for would be lost.
    """
    first = _identity(fns[0])
    for replica, fn in enumerate(fns):
        if _identity(fn) != first:
            raise RuntimeError(DIFFERENT.format(named(fns[0]), replica, named(fn)))


def _identity(fn: Callable[..., Any]) -> tuple[object, int]:
    if isinstance(fn, partial):
        return _identity(fn.func)
    return getattr(fn, "__code__", fn), id(getattr(fn, "__self__", None))
