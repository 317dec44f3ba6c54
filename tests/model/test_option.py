"""Options are declared once: what they may be is checked, listed and said from the same row."""

import pytest

from tracer.model.option import Option, describe_options, option_line, text_of, values_of

DECLARED = {
    "batch": Option(64, "images", least=1),
    "rate": Option(0.5, least=0),
    "keep": Option(False),
    "how": Option("ring", allowed=("ring", "tree")),
}


def test_texts_become_values_of_the_defaults_type() -> None:
    texts = {"batch": "8", "rate": "1e-2", "keep": "true", "how": "tree", "cross": "not ours"}
    assert values_of(DECLARED, texts) == {"batch": 8, "rate": 0.01, "keep": True, "how": "tree"}
    assert values_of(DECLARED, {}) == {"batch": 64, "rate": 0.5, "keep": False, "how": "ring"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("batch", "0"), ("batch", "1.5"), ("batch", ""), ("batch", "9" * 5000),
        ("rate", "nan"), ("rate", "-1"), ("keep", "1"), ("how", "Ring"),
    ],
)  # fmt: skip
def test_a_text_that_breaks_the_rule_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=name):
        values_of(DECLARED, {name: text})


def test_a_default_reads_back_from_its_text() -> None:
    for option in DECLARED.values():
        assert option.read(text_of(option.default)) == option.default


def test_the_list_shows_name_type_default_and_what_is_allowed() -> None:
    assert describe_options(DECLARED)["how"] == {
        "type": "str", "default": "ring", "allowed": ["ring", "tree"], "least": None, "says": "",
    }  # fmt: skip
    line = option_line("batch", DECLARED["batch"])
    assert line == "batch=64  (int: a whole number from 1 on): images"
