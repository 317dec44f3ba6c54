"""English and Chinese say the same things with the same values."""

import string
from itertools import pairwise
from pathlib import Path

import pytest

from vizdist.i18n import LANGUAGES, as_lang, catalogue, spans_of, t


def values_in(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def plain(key: str) -> str:
    """A key without the form of its number; Chinese has one form."""
    base = key.rpartition(".")[0]
    return base if f"{base}.one" in catalogue("en") else key


def test_every_text_is_in_both_languages() -> None:
    assert {plain(key) for key in catalogue("en")} == catalogue("zh").keys()


@pytest.mark.parametrize("key", sorted(catalogue("en")))
def test_both_languages_use_the_same_values(key: str) -> None:
    if not key.endswith(".one"):
        assert values_in(catalogue("en")[key]) == values_in(catalogue("zh")[plain(key)])


@pytest.mark.parametrize("lang", LANGUAGES)
def test_bold_marks_come_in_pairs_and_nothing_shouts(lang: str) -> None:
    texts = catalogue(as_lang(lang))
    assert not [key for key, text in texts.items() if text.count("**") % 2]
    assert not [key for key, text in texts.items() if "!" in text or "！" in text or "~" in text]


def test_chinese_has_chinese_punctuation() -> None:
    """A Latin comma or colon after a Chinese letter is a slip."""
    slips = {
        key: text
        for key, text in catalogue("zh").items()
        for left, right in pairwise(text)
        if "\u4e00" <= left <= "\u9fff" and right in ",:;?"
    }
    assert not slips


def test_the_canvas_of_replay_uses_every_word_that_it_is_given() -> None:
    scripts = "".join(path.read_text("utf-8") for path in Path("assets").glob("*.mjs"))
    names = {key.rpartition(".")[2] for key in catalogue("en") if key.startswith("replay.canvas.")}
    assert not {name for name in names if name not in scripts}


def test_a_value_is_never_markup() -> None:
    parts = spans_of("shell.header.step", "en", step="**<b>9</b>**")
    assert parts == [("Step **<b>9</b>**", False)]


def test_a_missing_text_is_an_error() -> None:
    with pytest.raises(KeyError):
        t("shell.no.such.text", "en")
