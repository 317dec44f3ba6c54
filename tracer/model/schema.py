"""The span schema as data: a row a kind, read from schema.toml beside this file."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

_TABLE: dict[str, Any] = tomllib.loads(
    (Path(__file__).parent / "schema.toml").read_text(encoding="utf-8")
)

SCHEMA_VERSION: str = _TABLE["version"]

#: how much of a run may be recorded; each level holds those before it
DETAILS: tuple[Literal["step", "rpc", "op"], ...] = ("step", "rpc", "op")

#: attributes that any kind may carry
COMMON_ATTRIBUTES: Mapping[str, str] = {
    "vizdist.step.number": "1",
    "vizdist.unfinished": "bool",
    "vizdist.last_seen_ns": "ns",
    "vizdist.lane": "",
    "vizdist.depth": "1",
    "vizdist.kind": "",
}


@dataclass(frozen=True, slots=True)
class SpanKind:
    """One row of the schema; see the head of schema.toml for the fields."""

    name: str
    says: str
    relation: Literal["nested", "follows"]
    otel: Literal["INTERNAL", "CLIENT", "SERVER"]
    lane: str
    hot: bool
    extra: str
    hands_on: bool
    detail: Literal["step", "rpc", "op"]
    attributes: Mapping[str, str]

    def allows(self, attribute: str) -> bool:
        own = self.attributes
        return attribute in own or attribute in COMMON_ATTRIBUTES or "*" in own


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Mapping[str, Mapping[str, Any]]:
    """TOML reads `[op.run]` as nested tables; a table with `says` is a kind."""
    kinds: dict[str, Mapping[str, Any]] = {}
    for key, value in table.items():
        if not isinstance(value, dict):
            continue
        name = f"{prefix}{key}"
        if "says" in value:
            kinds[name] = value
        else:
            kinds |= _flatten(value, f"{name}.")
    return kinds


SPAN_KINDS: Mapping[str, SpanKind] = {
    name: SpanKind(
        name=name,
        says=row["says"],
        relation=row["relation"],
        otel=row.get("otel", "INTERNAL"),
        lane=row["lane"],
        hot=row.get("hot", False),
        extra=row.get("extra", ""),
        hands_on=row.get("hands_on", False),
        detail=row.get("detail", DETAILS[0]),
        attributes=row.get("attributes", {}),
    )
    for name, row in _flatten(_TABLE).items()
}


def kinds_beyond(detail: str) -> frozenset[str]:
    """Kinds that are not recorded at this level."""
    levels: Sequence[str] = DETAILS
    recorded = levels[: levels.index(detail) + 1]
    return frozenset(kind.name for kind in SPAN_KINDS.values() if kind.detail not in recorded)
