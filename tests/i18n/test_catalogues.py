"""English and Chinese say the same things with the same values."""

import re
import string
from itertools import pairwise
from pathlib import Path

import pytest

from vizdist.i18n import LANGUAGES, Lang, as_lang, catalogue, spans_of, t

FORMATTER = string.Formatter()


def values_in(text: str) -> set[str]:
    """Without those that only choose between words for one and for several."""
    parts = FORMATTER.parse(text)
    return {name for _, name, spec, _ in parts if name and "|" not in (spec or "")}


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


#: values that say how many there are of something, beside those that are grouped by thousands
COUNTS = frozenset({
    "all", "control", "copies", "cycle", "devices", "differ", "dropped", "edges", "examples",
    "files", "full", "given", "gone", "graphs", "holders", "messages", "missed", "nodes",
    "num_passed", "parted", "pieces", "places", "pruned", "ranks", "read", "replicas", "rows",
    "seen", "steps", "thrown", "together", "total", "turns", "updates", "values", "waiting",
})  # fmt: skip
#: filled in by scripts, which choose other texts for one
SCRIPTED = (
    "graph.canvas.", "graph.column.", "graph.coming.", "graph.going.", "graph.two.", "graph.why.",
    "replay.canvas.", "timeline.canvas.",
)  # fmt: skip
_NOUN = r"(?!(?:differs|is|was)\b)[a-z]+s"
PLURAL_OF_ONE = re.compile(
    rf"\b1 (?:(?:different|mirrored|other|recorded|replica|Send/Recv|waiting) )?{_NOUN}\b"
    r"|\b1 (?:of [^.,;]*?)?(?:are|were|have)\b"
)
SINGULAR_OF_TWO = re.compile(
    r"\b2 (?:(?:different|mirrored|other|recorded|replica|Send/Recv|waiting) )?"
    r"(?:variable|step|span|node|edge|pair|update|version|worker|device|task|graph|gradient)\b"
)


def values_of(key: str, lang: Lang, count: int) -> dict[str, object]:
    """All counts the same, all else a name."""
    texts = [catalogue(lang).get(f"{key}{form}", "") for form in ("", ".one", ".other")]
    fields = [(name, spec) for text in texts for _, name, spec, _ in FORMATTER.parse(text) if name]
    counts = {name for name, spec in fields if spec == "," or name in COUNTS}
    return {"count": count} | {name: count if name in counts else "it" for name, _ in fields}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("count", [1, 2])
def test_every_text_can_be_said_of_one_and_of_two(lang: str, count: int) -> None:
    for key in catalogue(as_lang(lang)):
        asked = plain(key)
        assert "|" not in t(asked, as_lang(lang), **values_of(asked, as_lang(lang), count))


def test_what_scripts_fill_in_has_no_forms_within_a_text() -> None:
    texts = [text for lang in LANGUAGES for text in catalogue(lang).items()]
    assert not [key for key, text in texts if key.startswith(SCRIPTED) and "|" in text]


def test_one_of_something_is_no_plural_and_two_are_no_singular() -> None:
    """As in "1 versions", "1 of the pairs are", "2 version"."""
    slips = {}
    for key in {plain(key) for key in catalogue("en") if not key.startswith(SCRIPTED)}:
        one, two = (t(key, "en", **values_of(key, "en", count)) for count in (1, 2))
        if PLURAL_OF_ONE.search(one) or SINGULAR_OF_TWO.search(two):
            slips[key] = one, two
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
