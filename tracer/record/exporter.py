"""Sends what stands in the span files to a receiver too; the files are its queue.

    exporter = Exporter(target)
    exporter.offer(path, size)        # so much of this file is written
    told = exporter.finish(30, progress)

A receiver that is slow or away costs no memory and no span of the file: the exporter is only some
way behind in it. What was not sent when `finish` gives up is counted, and still in the file.
"""

import logging
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracer.record.export_target import GRPC, ExportTarget
from tracer.record.otlp_answer import Answer, Sender, Verdict
from tracer.record.otlp_http import HttpSender
from tracer.record.otlp_message import request_of
from tracer.record.otlp_writer import GZIP_FORM

BATCH_LINES: Final = 4  #: of at most 256 spans and 256 KiB: receivers take 4 MiB a message
FIRST_WAIT_S: Final = 0.5  #: before a batch is sent again; doubled each time
LONGEST_WAIT_S: Final = 30.0
LONGEST_ASKED_S: Final = 3600.0  #: a receiver may ask for more, and is asked again then
HURRY_S: Final = 1.0  #: the longest of our own waits once the run is over
PATIENCE_S: Final = 0.5  #: between two signs of life while the rest is sent
_CHUNK: Final = 1 << 16
_ONE_SPAN: Final = b'"startTimeUnixNano":"'  #: once in each; a quote inside a text is escaped

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Exported:
    """Spans that the receiver took, and those that it refused; why the last ones were not taken."""

    taken: int = 0
    refused: int = 0
    error: str = ""


class _Followed:
    """One span file: how much is written, how much of that was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.size = 0

    @property
    def has_more(self) -> bool:
        return self._offset < self.size

    def next_member(self) -> list[bytes]:
        """The lines of the next gzip member; there must be one."""
        engine = zlib.decompressobj(GZIP_FORM)
        text = bytearray()
        with self._path.open("rb") as file:
            file.seek(self._offset)
            while not engine.eof and (chunk := file.read(_CHUNK)):
                text += engine.decompress(chunk)
            self._offset = file.tell() - len(engine.unused_data)
        return bytes(text).splitlines()


def sender_to(target: ExportTarget) -> Sender:
    if target.protocol == GRPC:
        from tracer.record.otlp_grpc import GrpcSender  # noqa: PLC0415 (few runs export by gRPC)

        return GrpcSender(target)
    return HttpSender(target)


class Exporter:
    """A thread that follows the span files of a trace."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._files: dict[Path, _Followed] = {}
        self._news = threading.Condition()
        self._is_over = False  #: nothing more will be written
        self._given_up = threading.Event()
        self._told = Exported()
        self._thread = threading.Thread(target=self._run, name="exporter", daemon=True)
        self._thread.start()

    def offer(self, path: Path, size: int) -> None:
        with self._news:
            self._files.setdefault(path, _Followed(path)).size = size
            self._news.notify()

    @property
    def told(self) -> Exported:
        """How far it is; a moment later it may be further."""
        return self._told

    def finish(self, timeout_s: float, progress: Callable[[], None] = lambda: None) -> Exported:
        """All is offered: sends the rest for so long; calls `progress` while that takes time."""
        with self._news:
            self._is_over = True
            self._news.notify()
        deadline = time.monotonic() + timeout_s
        while self._thread.is_alive() and (left := deadline - time.monotonic()) > 0:
            self._thread.join(min(PATIENCE_S, left))
            progress()
        self._given_up.set()
        self._thread.join(PATIENCE_S)
        return self._told

    def _run(self) -> None:
        try:
            for lines in self._batches():
                self._export(lines)
                if self._given_up.is_set():
                    return
        except Exception as error:  # noqa: BLE001 (the file must not suffer from what is sent)
            _log.exception("the export ended")
            self._told.error = f"the export ended: {error}"
        finally:
            self._sender.close()

    def _batches(self) -> Iterator[list[bytes]]:
        while (file := self._next_file()) is not None:
            lines = file.next_member()
            for first in range(0, len(lines), BATCH_LINES):
                yield lines[first : first + BATCH_LINES]

    def _next_file(self) -> _Followed | None:
        """Waits for a file with something unread; None: there is none and will be none."""
        with self._news:
            while True:
                for file in self._files.values():
                    if file.has_more:
                        return file
                if self._is_over:
                    return None
                self._news.wait()

    def _export(self, lines: list[bytes]) -> None:
        """Sends a batch until it is taken or refused, or time is up."""
        spans = sum(line.count(_ONE_SPAN) for line in lines)
        if (answer := self._answer_to(lines)) is None:
            return
        refused = spans if answer.verdict is Verdict.REFUSED else min(answer.rejected, spans)
        self._told.taken += spans - refused
        self._told.refused += refused
        if refused or answer.message:
            self._note(answer)
        elif not self._told.refused:
            self._told.error = ""  # what went wrong was put right

    def _answer_to(self, lines: list[bytes]) -> Answer | None:
        """The last word on a batch; None: time is up. What is no OTLP is refused by ourselves."""
        try:
            data = request_of(lines).SerializeToString()
        except Exception as error:  # noqa: BLE001 (one bad batch must not cost the others)
            return Answer(Verdict.REFUSED, f"what the file holds cannot be sent: {error}")
        wait_s = FIRST_WAIT_S
        while (answer := self._sender.send(data)).verdict is Verdict.LATER:
            self._note(answer)
            if self._given_up.wait(self._pause(answer, wait_s)):
                return None
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        return answer

    def _pause(self, answer: Answer, wait_s: float) -> float:
        """As long as the receiver asks; our own waits grow, differ, and are short at the end."""
        own = min(wait_s, HURRY_S) if self._is_over else wait_s
        return min(answer.wait_s, LONGEST_ASKED_S) or own * random.uniform(0.8, 1.2)

    def _note(self, answer: Answer) -> None:
        if answer.message != self._told.error:
            _log.warning("the export: %s", answer.message)
        self._told.error = answer.message
