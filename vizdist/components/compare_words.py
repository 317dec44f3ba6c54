"""Sentences and facts of a comparison, in words."""

from dash.development.base_component import Component

from vizdist.analysis.compare_told import Said, Value
from vizdist.analysis.loss_curve import metric_title
from vizdist.analysis.mechanisms.text_table import listed
from vizdist.analysis.run_facts import Fact
from vizdist.components.cards import rich
from vizdist.i18n import Lang, t


def sentence(said: Said, lang: Lang) -> list[Component | str]:
    values = {name: _told(name, value, lang) for name, value in said.values.items()}
    return rich(f"compare.told.{said.key}", lang, **values)


def value_text(value: Value, lang: Lang) -> str:
    if isinstance(value, Said):
        values = {name: value_text(one, lang) for name, one in value.values.items()}
        return t(f"compare.told.{value.key}", lang, **values)
    if isinstance(value, tuple):
        words = [_fact_text(one, lang) if isinstance(one, Fact) else one for one in value]
        return listed(words, lang)
    return str(value)


def _told(name: str, value: Value, lang: Lang) -> str:
    if name == "runs" and isinstance(value, tuple) and len(value) > 1:
        *first, last = (str(letter) for letter in value)
        return t("compare.letters", lang, first=listed(first, lang), last=last)
    return value_text(value, lang)


def _fact_text(fact: Fact, lang: Lang) -> str:
    """A condition and what it was in each run."""
    name = fact_name(fact, lang)
    if not fact.values:
        return name
    values = t("compare.against", lang).join(value or "–" for value in fact.values)
    return t("compare.fact_of", lang, name=name, values=values)


def fact_name(fact: Fact, lang: Lang) -> str:
    if fact.key == "metric":
        return metric_title(fact.name, lang)
    return fact.name or t(f"compare.fact.{fact.key}", lang)
