"""The Reference page says what the sources say, every entry can be pointed at, nothing is stale."""

from collections import Counter
from pathlib import Path

import pytest
from dash.development.base_component import Component

import vizdist.i18n
from tests.components.reading import found
from tests.components.reading import text as said
from tests.pages.commands import FILE, RUNNABLE, runnable_text, text
from tracer.model.schema import SPAN_KINDS
from vizdist.components.view import View
from vizdist.i18n import LANGUAGES, Lang
from vizdist.pages import reference
from vizdist.store.library import Library


def entries(lang: Lang = "en") -> dict[str, Component]:
    page = reference.layout(Library([]), View("reference", "", lang))
    return {str(vars(one)["id"]): one for one in found(page, "entry") if "id" in vars(one)}


def test_the_commands_are_those_of_the_parsers() -> None:
    stale = "run `python -m tests.pages.commands`: flags changed since commands.json was written"
    assert FILE.read_text(encoding="utf-8") == text(), stale


def test_what_can_be_started_is_what_the_list_says() -> None:
    stale = "run `python -m tests.pages.commands`: options changed since runnable.json was written"
    assert RUNNABLE.read_text(encoding="utf-8") == runnable_text(), stale


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_kind_of_the_schema_is_told_with_its_attributes(lang: Lang) -> None:
    told = entries(lang)
    for kind in SPAN_KINDS.values():
        words = said(told[f"kind-{kind.name}"])
        assert all(attribute in words for attribute in kind.attributes)
    assert said(told["kind-op.run"]).startswith("op.run")


def test_every_flag_has_an_anchor_of_its_own() -> None:
    page = reference.layout(Library([]), View("reference", "", "en"))
    anchors = Counter(_ids(page))
    assert anchors["command-tracer-run-steps"] == 1
    assert anchors["command-vizdist-serve-port"] == 1
    assert not [name for name, count in anchors.items() if count > 1]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_word_is_a_term_and_a_sentence(lang: Lang) -> None:
    words = {name: one for name, one in entries(lang).items() if name.startswith("word-")}
    assert len(words) > 50
    for entry in words.values():
        assert len(said(entry.children[1])) > 5
        assert said(entry.children[0])
    assert "rendezvous" in said(words["word-rendezvous"])


def test_chinese_tells_kinds_that_are_there() -> None:
    told = reference._told_in_chinese()
    assert set(told) <= set(SPAN_KINDS)
    assert told["op.run"] in said(entries("zh")["kind-op.run"])
    assert (Path(vizdist.i18n.__file__).parent / "kinds_zh.toml").is_file()


def _ids(part: object) -> list[str]:
    if isinstance(part, Component):
        own = [str(vars(part)["id"])] if "id" in vars(part) else []
        return [*own, *_ids(getattr(part, "children", None))]
    if isinstance(part, list | tuple):
        return [one for child in part for one in _ids(child)]
    return []
