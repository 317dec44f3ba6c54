"""Host and port as text, and what may be bound: IPv6 in brackets, no open door without a secret."""

import ipaddress
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from tracer.model.refusal import Refusal

_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


class AddressError(Refusal):
    """An address that cannot be served or dialed; the text says what to write instead."""


class Address(NamedTuple):
    host: str  #: without brackets
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `host:port` and `[::1]:port`; raises AddressError."""
        host, colon, port = text.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise AddressError(
                f"address {text!r} needs a host and a port from 0 to 65535, "
                "for example 127.0.0.1:2222 or [::1]:2222"
            )
        if host.startswith("[") and host.endswith("]"):
            return cls(host[1:-1], int(port))
        if ":" in host:
            raise AddressError(
                f"address {text!r} looks like IPv6 without brackets; write [{host}]:{port}"
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def listening_pid(port: int) -> int | None:
    """The process that listens on a TCP port of this machine, if the system tells."""
    inodes = set(_listening_inodes(port))
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in Path("/proc").glob("[0-9]*/fd"):
        if wanted.intersection(_targets(folder)):
            return int(folder.parent.name)
    return None


def _targets(folder: Path) -> Iterator[str]:
    """Where the links of a folder point, as far as they can be read."""
    with suppress(OSError):  # another user's process, or one that just ended
        for link in folder.iterdir():
            with suppress(OSError):  # a file that was just closed
                yield str(link.readlink())


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if re.fullmatch(rf"[0-9A-F]+:{port:04X}", fields[1]) and fields[3] == _LISTEN:
                yield fields[9]
