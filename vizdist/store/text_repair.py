r"""Makes the JSON that tracers really write readable: bad escapes, control letters, bad UTF-8, inf.

Text goes through in blocks that end outside strings; blocks without a fault are only looked at. In
a string that holds an illegal escape every single backslash is literal, so `C:\Users\train.py`
keeps its `\t` (case I01).
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from vizdist.store.problems import TraceError

STRING_LIMIT = 64 << 20  #: bytes without the end of a string; more is no trace

_BALANCED = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_TAIL_TOKEN = re.compile(rb"[A-Za-z0-9+\-./]*\Z")
_SUSPECT = re.compile(
    rb'\\[^"\\/bfnrtu]|\\u(?![0-9A-Fa-f]{4})|[\x00-\x08\x0b\x0c\x0e-\x1f]'
    rb"|(?:[:,\[]|\A)\s*+[-+]?(?:[iI]nf|[nN]a[nN]|N/A)"
)
_PART = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"|[-+]?[0-9][0-9eE+\-.]*+|[-+]?[A-Za-z][A-Za-z/]*+', re.DOTALL
)
_ILLEGAL = re.compile(rb'\\(?:[^"\\/bfnrtu]|u(?![0-9A-Fa-f]{4}))', re.DOTALL)
_PAIR = re.compile(rb'\\(["\\]?)', re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x1f]")
_LITERALS = (b"true", b"false", b"null")
_REPLACEMENT = "�".encode()


class JsonText:
    """A readable stream of repaired JSON; `repairs` counts by problem kind what was mended."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self.repairs: Counter[str] = Counter()
        self._blocks = self._repaired(self._utf8(iter(blocks)))

    def read(self, size: int = -1) -> bytes:
        """The next block, of any length; b"" at the end (what ijson asks for)."""
        return next(self._blocks, b"") if size else b""

    def _utf8(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        """UTF-8 without a byte order mark, whatever it was; bytes that are none become U+FFFD."""
        first = next(blocks, b"")
        codec = "utf-8"
        for mark, name in (
            (codecs.BOM_UTF8, "utf-8-sig"),
            (codecs.BOM_UTF16_LE, "utf-16"),
            (codecs.BOM_UTF16_BE, "utf-16"),
        ):
            codec = name if first.startswith(mark) else codec
        decoder = codecs.getincrementaldecoder(codec)("replace")
        block = first
        while block:
            text = decoder.decode(block).encode("utf-8", "replace")
            if codec != "utf-16":
                self.repairs["utf8"] += text.count(_REPLACEMENT) - block.count(_REPLACEMENT)
            yield text
            block = next(blocks, b"")
        yield decoder.decode(b"", final=True).encode()

    def _repaired(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        rest = b""
        for block in blocks:
            text = rest + block
            whole = _BALANCED.match(text)
            end = whole.end() if whole else 0
            if end == len(text) and (token := _TAIL_TOKEN.search(text)):
                end = token.start()
            rest = text[end:]
            if len(rest) > STRING_LIMIT:
                raise TraceError(f"a text of more than {STRING_LIMIT >> 20} MiB is not a trace's")
            if end:
                yield self._mend(text[:end])
        if rest:
            yield self._mend(rest)

    def _mend(self, text: bytes) -> bytes:
        return _PART.sub(self._mend_part, text) if _SUSPECT.search(text) else text

    def _mend_part(self, match: re.Match[bytes]) -> bytes:
        part = match[0]
        if part[:1] == b'"':
            return self._mend_string(part)
        if part in _LITERALS or part[-1:].isdigit():
            return part
        self.repairs["token"] += 1
        return b"null"

    def _mend_string(self, part: bytes) -> bytes:
        if b"\\" in part and _ILLEGAL.search(part.replace(b"\\\\", b"")):
            self.repairs["escapes"] += 1
            part = _PAIR.sub(lambda m: m[0] if m[1] else rb"\\", part)
        if _CONTROL.search(part):
            self.repairs["control"] += 1
            part = _CONTROL.sub(_REPLACEMENT, part)
        return part


def mend(text: bytes) -> tuple[bytes, Counter[str]]:
    """A whole text repaired, and what was mended."""
    stream = JsonText([text])
    return b"".join(iter(stream.read, b"")), stream.repairs
