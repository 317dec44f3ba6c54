"""The rpc thread: one asyncio loop a process, on which all gRPC objects of that process live.

One loop, because gRPC's asyncio poller serves all loops of a process through one socket: a second
loop costs wake-ups, and closing it breaks the first.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

_T = TypeVar("_T")


class RpcLoop:
    def __init__(self) -> None:
        self.asyncio = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="rpc", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self.asyncio)
        self.asyncio.run_forever()

    def _stop(self) -> None:
        self.asyncio.call_soon_threadsafe(self.asyncio.stop)
        self._thread.join(1.0)

    def is_current(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def future(self) -> asyncio.Future[None]:
        return self.asyncio.create_future()

    def soon(self, work: Callable[[], None]) -> None:
        """Any thread."""
        if self.is_current():
            self.asyncio.call_soon(work)
        else:
            self.asyncio.call_soon_threadsafe(work)

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        """On the loop only."""
        self.asyncio.call_later(delay_s, work)

    def call(self, coroutine: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        """Runs it and waits; for threads other than the loop's own.

        Raises TimeoutError after `timeout_s`.
        """
        if self.is_current():
            coroutine.close()
            raise RuntimeError("the rpc thread must not wait for itself; call from another thread")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.asyncio)
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()


@cache
def rpc_loop() -> RpcLoop:
    """This process's loop, started on first use."""
    return RpcLoop()
