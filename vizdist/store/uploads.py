"""Files that viewers hand to the server: kept under names of ours until it ends."""

import secrets
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from vizdist.store.library import FILE_SUFFIXES, Library
from vizdist.store.problems import refusal

INFLATED_BYTES: Final = 200 << 20  #: what a compressed upload may hold
MAX_FILES: Final = 20


class Uploads:
    """A folder of its own in the system's temporary folder; nothing of a viewer's name reaches it.

    Thread-safe.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._num_files = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def fresh_path(self, name: str) -> Path:
        """Where a file of this name may be written; its suffix alone is taken over.

        Raises TraceError for a file of no known suffix, or one too many.
        """
        suffix = next((one for one in FILE_SUFFIXES if name.lower().endswith(one)), "")
        if not suffix:
            raise refusal("suffix", name, ", ".join(FILE_SUFFIXES))
        with self._lock:
            if self._num_files >= MAX_FILES:
                raise refusal("uploads", name, count=MAX_FILES)
            self._num_files += 1
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="vizdist-uploads-")
            return Path(self._folder.name) / f"upload-{secrets.token_hex(4)}{suffix}"

    def accept(self, path: Path) -> str:
        """Opens what was written and adds it to the library; returns its id.

        Raises TraceError, and removes the file, if it is no trace or holds too much.
        """
        try:
            trace_id = self._library.add(path, limit=INFLATED_BYTES)
            self._library.open(trace_id)
        except BaseException:
            self.discard(path)
            raise
        return trace_id

    def discard(self, path: Path) -> None:
        """A file that did not become a trace."""
        self._library.remove(path)
        with suppress(OSError):
            path.unlink()
        with self._lock:
            self._num_files -= 1
