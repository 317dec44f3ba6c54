"""Pulls in flight, and those that wait to serve again (TF `RpcRecvTensorFreeList`)."""

from tracer.model.cluster import TaskName
from tracer.runtime.caches import Tally
from tracer.runtime.interfaces import RecvDone

FREE_CALLS = 1000  #: kept at most


class RecvCall:
    """A pull in flight. `since` is when it began, in ns of its rendezvous' clock."""

    __slots__ = ("done", "key", "request_id", "since", "source")

    request_id: int
    source: TaskName
    key: str
    done: RecvDone
    since: int


class FreeCalls:
    """Takes and gives are single steps of a list, so any thread may call."""

    def __init__(self) -> None:
        self.tally = Tally("recv_call")
        self._free: list[RecvCall] = []

    def take(
        self, request_id: int, source: TaskName, key: str, done: RecvDone, since: int
    ) -> RecvCall:
        try:
            call = self._free.pop()
            self.tally.hit()
        except IndexError:
            call = RecvCall()
            self.tally.miss()
        call.request_id = request_id
        call.source = source
        call.key = key
        call.done = done
        call.since = since
        return call

    def give_back(self, call: RecvCall) -> None:
        """Once its answer is here, and not before: a late one would be taken for the next's."""
        del call.done  # it knows its run, and so all values of a step that may be long over
        if len(self._free) < FREE_CALLS:
            self._free.append(call)
