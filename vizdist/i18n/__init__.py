"""Every word on the screen, in English and 简体中文.

A catalogue is a folder of TOML files, one an area: `library.toml` holds the keys `library.…`.
`**` around a part of a text makes it bold; values are put in afterwards, so that a name from a
trace is never markup. An English text that depends on `count` has the forms `one` and `other`;
words that depend on another number stand at their place: `{steps} {steps:step|steps}`.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, Literal, get_args

Lang = Literal["en", "zh"]
LANGUAGES: tuple[Lang, ...] = get_args(Lang)


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@cache
def catalogue(lang: Lang) -> Mapping[str, str]:
    """All texts of a language by dotted key."""
    texts: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / lang).glob("*.toml")):
        texts.update(_flat(tomllib.loads(path.read_text(encoding="utf-8")), f"{path.stem}."))
    return texts


def as_lang(text: str | None) -> Lang:
    """The language that a URL or browser asks for; English when it is none of ours."""
    return "zh" if text == "zh" else "en"


class _Forms(Formatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        one, has_forms, other = format_spec.partition("|")
        if has_forms:
            return one if str(value) == "1" else other
        return super().format_field(value, format_spec)


_FORMS = _Forms()


def _template(key: str, lang: Lang, values: Mapping[str, object]) -> str:
    texts = catalogue(lang)
    if key in texts:
        return texts[key]
    form = "one" if values.get("count") == 1 else "other"
    return texts[f"{key}.{form}"]


def spans_of(key: str, lang: Lang, **values: object) -> list[tuple[str, bool]]:
    """The text as (part, is bold) pairs. KeyError for a key or value that is not there."""
    parts = _template(key, lang, values).split("**")
    return [
        (_FORMS.vformat(part, (), values), at % 2 == 1) for at, part in enumerate(parts) if part
    ]


def t(key: str, lang: Lang, **values: object) -> str:
    """The text as a plain string."""
    return "".join(part for part, _ in spans_of(key, lang, **values))
