"""What a model is judged by on examples that no batch contained: a number with a name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

ACCURACY = "accuracy"
NOT_JUDGED: Mapping[str, Any] = {ACCURACY: None, "metric": None}


@dataclass(frozen=True, slots=True)
class Metric:
    """`accuracy`, and what ends so, is a share of what was judged; all else is a plain number."""

    name: str
    value: float

    @property
    def is_share(self) -> bool:
        return self.name.endswith(ACCURACY)

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} %" if self.is_share else f"{self.value:.4g}"

    def to_json(self) -> Mapping[str, Any]:
        """What a run prints, as its `accuracy` too where it is one; else NOT_JUDGED."""
        return {ACCURACY: self.value if self.is_share else None, "metric": asdict(self)}


def metric_name(function: object) -> str:
    """`mean error` of a function mean_error; `metric` of one that has no name of its own."""
    name = str(getattr(function, "__name__", ""))
    return name.replace("_", " ").strip() if name.isidentifier() else "metric"
