"""A call that is made again where the connection was lost under it: the same bytes, so the same id.

For a peer that keeps its answers (`tracer.runtime.response_cache`), and so does nothing twice.
"""

from tracer.rpc.connection import Connection, OnAnswer
from tracer.rpc.frames import Parts
from tracer.rpc.transport import Transport
from tracer.runtime.interfaces import StepError

_LOST = "UNAVAILABLE"  #: of another code are good byes, and peers that are none
WAITS_S = (0.0, 0.1, 0.2, 0.4)  #: before each further try; a peer that is gone for good refuses all


class RetriedCall:
    def __init__(
        self,
        transport: Transport,
        peer: str,
        address: str,
        kind: int,
        payload: Parts,
        on_answer: OnAnswer,
    ) -> None:
        self._transport = transport
        self._peer = peer
        self._address = address
        self._kind = kind
        self._payload = payload
        self._on_answer = on_answer
        self._waits = iter(WAITS_S)
        self._connection: Connection | None = None

    def ask(self) -> None:
        """Any thread."""
        self._connection = self._transport.connection(self._peer, self._address)
        self._connection.call(self._kind, self._payload, self._answered)

    def _answered(self, payload: memoryview, error: StepError | None) -> None:
        wait_s = next(self._waits, None) if error is not None and self._is_lost(error) else None
        if wait_s is None:
            self._on_answer(payload, error)
        else:
            loop = self._transport.loop
            loop.soon(lambda: loop.later(wait_s, self.ask))

    def _is_lost(self, error: StepError) -> bool:
        assert self._connection is not None
        return error is self._connection.error and error.code == _LOST
