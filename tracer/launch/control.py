"""The line between launcher and task: JSON lines, events up, commands down.

Events go up on the task's standard output, commands come down its standard input; what the task
prints goes to its log. The end of standard input means that the launcher is gone, and the task ends
too.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from tracer.launch.jobs import Stopped
from tracer.runtime.interfaces import StepError

REMAKE = "remake"  #: the command to make sessions anew

LINGER_S = 10.0  #: how long a task may outlive its launcher, which nobody else would end


class Commands:
    """What the launcher said, in its order."""

    def __init__(self) -> None:
        self._is_stopping = False
        self._num_remakes = 0  # words to make sessions anew that were not followed yet
        self._commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._ahead: dict[str, Any] | None = None  # of these the first, seen and not followed

    def take(self, command: dict[str, Any]) -> None:
        self._is_stopping |= command["command"] == "stop"
        self._num_remakes += command["command"] == REMAKE
        self._commands.put(command)

    def wait(self, command: str, timeout_s: float) -> Mapping[str, Any]:
        """The next command, which must be this one, `remake` or `stop`.

        Raises TimeoutError, Stopped when the launcher says stop or is gone, or StepError when it
        says that sessions must be made anew: `recover` waits for that word.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                got = self._get(max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(
                    f"no {command!r} from the launcher within {timeout_s:g} s"
                ) from None
            if got["command"] == "stop":
                raise Stopped
            if got["command"] == command:
                self._num_remakes -= command == REMAKE
                return got
            if got["command"] == REMAKE:
                self._ahead = got
                raise _remade()
            # what is left is a `go` for a start that a `remake` took back

    def wait_for_stop(self) -> None:
        while self._get(None)["command"] != "stop":
            pass

    def _get(self, timeout_s: float | None) -> dict[str, Any]:
        ahead, self._ahead = self._ahead, None
        return ahead or self._commands.get(timeout=timeout_s)

    def check(self) -> None:
        """What the launcher has said meanwhile, for a client between its steps.

        Raises Stopped, or StepError when sessions must be made anew.
        """
        if self._is_stopping:
            raise Stopped
        if lost := self.loss():
            raise lost

    def loss(self) -> StepError | None:
        """That sessions must be made anew, until that word is followed: no step of them may end."""
        return _remade() if self._num_remakes else None


class Control(Commands):
    """A task's side of the line."""

    def __init__(self) -> None:
        """Takes over standard output: from here on `print` writes to standard error, the log."""
        super().__init__()
        self._events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
        os.dup2(2, 1)
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="control", daemon=True).start()

    def tell(self, event: str, **facts: Any) -> None:
        """Sends an event; a launcher that is gone is no error here, its silence ends us below."""
        line = json.dumps({"event": event, **facts})
        with self._lock:
            try:
                self._events.write(line + "\n")
            except (BrokenPipeError, ValueError):
                return

    def _listen(self) -> None:
        for line in sys.stdin:
            self.take(json.loads(line))
        self.take({"command": "stop"})
        end = threading.Timer(LINGER_S, os._exit, (1,))
        end.daemon = True
        end.start()


def _remade() -> StepError:
    return StepError("ABORTED", "a task of this session died and is started again")
