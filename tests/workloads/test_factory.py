"""The parameters of a factory are the options of its workload."""

from typing import Annotated, Any, Literal

import pytest

from tracer.model.option import Option
from tracer.workloads.factory import AtLeast, FactoryError, options_of, says_of


def make(
    batch: Annotated[int, AtLeast(1), "rows in a batch"] = 64,
    how: Annotated[Literal["ring", "tree"], "the way"] = "ring",
    heads: Literal[2, 4] = 4,
    rate: float = 0.5,
    keep: bool = False,
    hook: Any = None,
    *rest: int,
    name: str = "a",
    **more: int,
) -> None:
    """Trains something.

    More of it.
    """


def test_types_defaults_bounds_and_choices_are_read_from_the_signature() -> None:
    assert options_of(make, "train:make") == {
        "batch": Option(64, "rows in a batch", least=1),
        "how": Option("ring", "the way", allowed=("ring", "tree")),
        "heads": Option(4, allowed=("2", "4")),
        "rate": Option(0.5),
        "keep": Option(False),
        "name": Option("a"),
    }
    assert options_of(make, "train:make")["heads"].read("2") == 2


def test_it_says_the_first_line_of_its_docstring() -> None:
    assert says_of(make) == "Trains something."
    assert says_of(lambda: None) == ""


def test_a_parameter_without_a_default_is_refused() -> None:
    with pytest.raises(FactoryError, match="--option width=VALUE"):
        options_of(lambda width: width, "train:make")


def test_annotations_that_name_nothing_known_do_not_hinder() -> None:
    def odd(batch: "Missing" = 3) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Annotated with a name that is nowhere."""

    assert options_of(odd, "train:odd") == {"batch": Option(3)}


def test_a_callable_that_tells_nothing_of_itself_has_no_options() -> None:
    assert options_of(iter, "builtins:iter") == {}
