"""Where variables with one copy each lie, which of their devices is hot, how late updates came."""

import pytest

from tests.components.reading import found, text
from vizdist.analysis.variables import Access, Copy, Variable
from vizdist.components.placement import placement
from vizdist.components.variable_cards import staleness_bars
from vizdist.i18n import LANGUAGES, Lang

VARIABLES = [
    Variable(name, (2,), num_bytes, "", "", (Copy(name, place, 1),))
    for name, num_bytes, place in [("w1", 800, "ps:0"), ("w2", 150, "ps:1"), ("b", 50, "ps:0")]
]


def test_each_device_has_a_box_and_each_of_its_variables_a_tile() -> None:
    card = placement(VARIABLES, {"ps:0": 1700.0, "ps:1": 300.0, "worker:0": 2000.0}, "w2", "en")
    assert text(card[0]) == (
        "ps:0 has the most traffic, 1.66 KiB a step: 85 % of what goes in and out of these "
        "devices. It holds 85 % of the bytes."
    )
    first, second = found(card, "treemap-box")
    assert text(found(first, "treemap-head")) == "ps:0850 B1.66 KiB a step"
    styles = [getattr(tile, "style", {}) for tile in found(first, "treemap-tile")]
    shares = [float(s["width"][:-1]) * float(s["height"][:-1]) / 100 for s in styles]
    assert shares == pytest.approx([100 * 800 / 850, 100 * 50 / 850], rel=1e-3)
    [tile] = found(second, "treemap-tile")
    assert getattr(tile, "data-variable") == "w2"
    assert getattr(tile, "aria-pressed") == "true"


def test_what_every_task_has_for_itself_is_left_to_the_table() -> None:
    own = tuple(Copy("step", f"worker:{number}", 1) for number in range(2))
    every = [*VARIABLES, Variable("step", (), 8, "", "", own)]
    card = placement(every, {}, "w1", "en")
    assert len(found(card, "treemap-box")) == 2


@pytest.mark.parametrize("lang", LANGUAGES)
def test_one_device_alone_is_not_called_hot(lang: Lang) -> None:
    said = text(placement(VARIABLES[:1], {"ps:0": 9.0}, "w1", lang)[0])
    assert said.startswith({"en": "All lie on one device", "zh": "都在同一个设备上"}[lang])


def test_a_bar_a_number_of_versions_missed_counts_its_updates() -> None:
    missed = [0, 0, 0, 2]
    used = [Access(n, "worker:0", "apply", n, m, n, "a") for n, m in enumerate(missed)]
    bars = found(staleness_bars([*used, Access(9, "worker:0", "read", 9, 0, 9, "b")], "en"),
                 "missed-row")  # fmt: skip
    assert [text(bar) for bar in bars] == ["03", "10", "21"]
    assert staleness_bars([], "en") == []
