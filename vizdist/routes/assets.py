"""The browser's files: where they lie, which version they are, which scripts a page will ask for.

Their version is part of their address, so a browser keeps them for good and asks for none of them
twice; a page names its scripts up front, so that they come side by side and not one import deep at
a time.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response

import vizdist

_IMPORT = re.compile(r'^(?:import|\} from|export .* from)[^"]*"\./([\w/]+\.mjs)"', re.MULTILINE)
_PICTURE = re.compile(r'url\("([\w/]+\.svg)"\)')


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


def style_of(folder: Path, names: Iterable[str]) -> str:
    """These style sheets as one, with the pictures that they show: a page waits for each file."""
    text = "\n".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in names)
    return _PICTURE.sub(lambda found: f'url("{_data_url(folder / found[1])}")', text)


def _data_url(picture: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def style_routes(folder: Path, assets_path: str) -> APIRouter:
    """All style sheets at one address, among the files of this version."""
    style = style_of(folder, sorted(path.stem for path in folder.glob("*.css")))
    router = APIRouter(prefix=f"/{assets_path}")

    @router.get("/style.css")
    def all_styles() -> Response:
        return Response(style, media_type="text/css")

    return router
