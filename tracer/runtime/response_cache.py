"""Answers to RecvTensor by request id, for a receiver whose connection broke under its first try.

After TF `grpc_response_cache.cc`. A pull takes its value away, so only the same request may have it
twice. An answer is kept until the receiver says that it has it, or the step is cleaned up. Off
unless it is asked for: what is kept is memory.
"""

import threading
from functools import partial

from tracer.runtime.caches import Tally
from tracer.runtime.interfaces import Received, RecvDone, StepError


class _Response:
    """What a request asked for, who waits for it, and what came."""

    __slots__ = ("key", "received", "step_id", "waiting")

    def __init__(self, step_id: int, key: str, done: RecvDone) -> None:
        self.step_id = step_id
        self.key = key
        self.waiting: list[RecvDone] = [done]
        self.received: Received | None = None


class ResponseCache:
    """Of one task; any thread."""

    def __init__(self) -> None:
        self.tally = Tally("recv_response")
        self._lock = threading.Lock()
        self._responses: dict[int, _Response] = {}
        self._of_step: dict[int, set[int]] = {}

    def ask(self, request_id: int, step_id: int, key: str, done: RecvDone) -> RecvDone | None:
        """What is to be called with the value; None: the request is known, `done` gets its answer.

        Raises StepError ABORTED for an id that another request has.
        """
        with self._lock:
            known = self._responses.get(request_id)
            if known is None:
                made = self._responses[request_id] = _Response(step_id, key, done)
                self._of_step.setdefault(step_id, set()).add(request_id)
                self.tally.miss()
                return partial(self._answer, made)
            if (known.step_id, known.key) != (step_id, key):
                raise StepError(
                    "ABORTED",
                    f"RecvTensor request {request_id:x} asks for {key} of step {step_id:x}; it was "
                    f"received before for {known.key} of step {known.step_id:x}",
                )
            self.tally.hit()
            received = known.received
            if received is None:
                known.waiting.append(done)
        if received is not None:
            done(received)
        return None

    def _answer(self, response: _Response, received: Received) -> None:
        with self._lock:
            response.received = received
            waiting, response.waiting = response.waiting, []
        for done in waiting:
            done(received)

    def forget(self, request_id: int) -> None:
        """The receiver has its answer."""
        with self._lock:
            known = self._responses.pop(request_id, None)
            if known is None:
                return
            mates = self._of_step[known.step_id]
            mates.discard(request_id)
            if not mates:
                del self._of_step[known.step_id]

    def forget_step(self, step_id: int) -> None:
        """The step is cleaned up: nobody asks any more."""
        with self._lock:
            for request_id in self._of_step.pop(step_id, ()):
                del self._responses[request_id]

    def __len__(self) -> int:
        return len(self._responses)
