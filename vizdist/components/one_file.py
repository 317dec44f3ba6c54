"""Pages, styles, scripts and data in one HTML document that asks for no other file."""

import base64
import gzip
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import orjson

from vizdist.i18n import Lang
from vizdist.routes.assets import assets_folder, modules_of, style_of

_SPECIFIER = re.compile(r'"\./([\w/]+\.mjs)"')

_DOCUMENT = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
<script>{boot}</script>
<script type="importmap">{modules}</script>
</head>
<body>
<div id="react-entry-point" class="offline"></div>
{templates}
{held}
<script type="module">import "{entry}";</script>
</body>
</html>
"""


def document(
    title: str, pages: Mapping[Lang, str], held: Mapping[str, bytes],
    styles: Sequence[str], entry: str,
) -> str:  # fmt: skip
    """`pages` are markup by language, `held` is data by the id that the script finds it under."""
    folder = assets_folder()
    templates = [f'<template lang="{lang}">{text}</template>' for lang, text in pages.items()]
    data = [
        f'<script type="text/plain" id="{name}">{_packed(found)}</script>'
        for name, found in held.items()
    ]
    return _DOCUMENT.format(
        title=escape(title),
        style=style_of(folder, styles),
        boot=(folder / "boot.js").read_text(encoding="utf-8"),
        modules=_modules(folder, entry),
        templates="\n".join(templates),
        held="\n".join(data),
        entry=entry,
    )


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()


def _modules(folder: Path, entry: str) -> str:
    """An import map from the name of each script to its text: a file cannot import another."""
    imports = {}
    for name in modules_of(folder, [entry]):
        text = _SPECIFIER.sub(r'"\1"', (folder / name).read_text(encoding="utf-8"))
        imports[name] = f"data:text/javascript;base64,{base64.b64encode(text.encode()).decode()}"
    return orjson.dumps({"imports": imports}).decode()
