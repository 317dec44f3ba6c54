"""Progress on standard error: one changing line on a terminal, one line per 10 % elsewhere."""

import sys
from typing import TextIO


class ProgressLine:
    """Call it with what is going on and, if known, the share done (0 … 1).

    `of` stands before each text: whose progress it is, where there are several.
    """

    def __init__(self, of: str = "", stream: TextIO | None = None) -> None:
        self._of = of
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._last_text = ""
        self._last_tenth = -1
        self._width = 0

    def __call__(self, text: str, share: float | None = None) -> None:
        text = f"{self._of}{text}"
        if self._is_terminal:
            self._redraw(text if share is None else f"{self._bar(share)} {text}")
        elif share is None:
            self._say_if_new(text)
        elif (tenth := int(share * 10)) > self._last_tenth:
            self._last_tenth = tenth
            self._say_if_new(f"{tenth * 10:3d} %  {text}")

    def end(self) -> None:
        """Leaves the line, so that what follows starts on its own."""
        if self._width:
            self._stream.write("\n")
            self._width = 0

    @staticmethod
    def _bar(share: float, cells: int = 24) -> str:
        full = round(max(0.0, min(1.0, share)) * cells)
        return "█" * full + "░" * (cells - full)

    def _redraw(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = len(line)

    def _say_if_new(self, text: str) -> None:
        if text != self._last_text:
            self._last_text = text
            self._stream.write(text + "\n")
            self._stream.flush()
