"""The browser's files: where they lie, which version they are, which scripts a page will ask for.

Their version is part of their address, so a browser keeps them for good and asks for none of them
twice; a page names its scripts up front, so that they come side by side and not one import deep at
a time.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import vizdist

_IMPORT = re.compile(r'^(?:import|\} from|export .* from)[^"]*"\./([\w/]+\.mjs)"', re.MULTILINE)


def assets_folder() -> Path:
    """In a wheel the assets lie in the package, in a checkout beside it."""
    package = Path(vizdist.__file__).parent
    return found if (found := package / "assets").is_dir() else package.parent / "assets"


def version_of(folder: Path) -> str:
    """Changes with any byte of any file."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def modules_of(folder: Path, entries: Sequence[str]) -> list[str]:
    """The modules that these import, themselves first, as far as they are files of the folder."""
    found: list[str] = []
    waiting = [name for name in entries if (folder / name).is_file()]
    while waiting:
        name = waiting.pop(0)
        found.append(name)
        imported = _IMPORT.findall((folder / name).read_text(encoding="utf-8"))
        waiting += [other for other in imported if other not in (*found, *waiting)]
    return found
