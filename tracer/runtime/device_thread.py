"""A thread of a device, for what is too long for an RPC thread."""

import logging
import queue
import threading

from tracer.runtime import turn
from tracer.runtime.turn import Work

_log = logging.getLogger(__name__)


class DeviceThread:
    """Runs work in order, one turn each; the thread starts with the first piece."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work) -> None:
        if self._thread is None:
            self._start()
        self._queue.put(work)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                turn.run(work)
            except Exception:  # noqa: BLE001 (the thread must live on)
                _log.exception("work on %s failed", self._name)
            del work  # it holds a step's values, and the next one may be long in coming

    def close(self, timeout: float = 5.0) -> None:
        self._queue.put(None)
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
