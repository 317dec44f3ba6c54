"""What a viewer may start, and within which bounds: bundled workloads, choices and numbers.

runnable.json is what `tracer list --json` says, as the dashboard does not import the runtime. No
path and no free text of a viewer's reaches a command line.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tracer.model.fault import OF_FRAMES, Kind

_LISTED: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
GRAPH: Final = "graph"  #: the kind of a workload that has no strategy
ALONE: Final = "one_device"  #: the strategy that uses one device, however many there are
MOST: Final = 1_000_000  #: of an option that is a number


class Number(NamedTuple):
    least: int
    most: int
    usual: int


NUMBERS: Final[Mapping[str, Number]] = {
    "workers": Number(1, 8, 2),
    "ps": Number(1, 4, 1),
    "devices": Number(1, 8, 2),
    "steps": Number(1, 10_000, 50),
    "seed": Number(0, 2**31 - 1, 0),
}
FAULT_NUMBERS: Final[Mapping[str, Number]] = {
    "step": Number(1, 10_000, 5),
    "ms": Number(1, 60_000, 50),
}
_JOBS: Final[Mapping[str, str]] = {"workers": "worker", "ps": "ps"}


class NotRunnable(ValueError):
    """`key` says why, with `values` to put into the words for it."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(f"{key}: {values}")
        self.key = key
        self.values = values


def runnable() -> dict[str, dict[str, Any]]:
    """Workloads and strategies by name, with `options` that are choices or numbers.

    A workload has a `kind`; `numbers` are those of NUMBERS that there are to choose, `usual` what
    some of them are here.
    """
    workloads = {
        name: {**_told(row), "kind": row["kind"], "numbers": ["steps", "seed"]}
        for name, row in _LISTED["workloads"].items()
    }
    strategies = {
        name: {
            **_told(row),
            "numbers": [*_counts(row["jobs"]), "devices"],
            "usual": {"devices": 1} if row["jobs"] or name == ALONE else {},
        }
        for name, row in _LISTED["strategies"].items()
    }
    return {"workloads": workloads, "strategies": strategies}


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    options = row["options"].items()
    return {"options": {name: option for name, option in options if _is_bounded(option)}}


def _counts(jobs: list[str]) -> list[str]:
    return [number for number, job in _JOBS.items() if job in jobs]


def _is_bounded(option: Mapping[str, Any]) -> bool:
    return option["type"] != "str" or bool(option["allowed"])


def arguments_of(asked: Any) -> list[str]:
    """What `tracer run` is told: {"workload", "strategy", "numbers", "options", "fault"}.

    Raises NotRunnable for whatever is none of the choices.
    """
    if not isinstance(asked, dict):
        raise NotRunnable("form")
    can = runnable()
    workload = _chosen(asked.get("workload"), "workload", can["workloads"])
    parts = [can["workloads"][workload]]
    arguments = [workload]
    if parts[0]["kind"] != GRAPH:
        strategy = _chosen(asked.get("strategy"), "strategy", can["strategies"])
        parts.append(can["strategies"][strategy])
        arguments += ["--strategy", strategy]
    known = {name for part in parts for name in part["numbers"]}
    options = {name: option for part in parts for name, option in part["options"].items()}
    arguments += _numbers(_texts(asked, "numbers"), known)
    arguments += _options(_texts(asked, "options"), options)
    return [*arguments, *_fault(_texts(asked, "fault"), tasks_of(asked))]


def tasks_of(asked: Mapping[str, Any]) -> dict[str, int]:
    """The tasks of a run, and how many devices each has; none of a graph, which names its own.

    What is asked for was found to be runnable.
    """
    if runnable()["workloads"][asked["workload"]]["kind"] == GRAPH:
        return {}
    jobs = _LISTED["strategies"][asked["strategy"]]["jobs"]
    told = asked.get("numbers", {})

    def number(name: str) -> int:
        usual = runnable()["strategies"][asked["strategy"]]["usual"]
        return int(told.get(name, usual.get(name, NUMBERS[name].usual)))

    counts = {"ps": number("ps") if "ps" in jobs else 0}
    counts["worker"] = number("workers") if "worker" in jobs else 1
    devices = {"ps": 1, "worker": number("devices")}
    return {f"{job}:{n}": devices[job] for job, count in counts.items() for n in range(count)}


def default_options(workload: str, strategy: str) -> dict[str, str]:
    """Of every option, also those that are not offered, as a run's manifest has them."""
    rows = [_LISTED["workloads"][workload]]
    rows += [_LISTED["strategies"][strategy]] if strategy else []
    named = (each for row in rows for each in row["options"].items())
    return {name: _as_told(option["default"]) for name, option in named}


def _as_told(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fault(asked: Mapping[str, str], tasks: Mapping[str, int]) -> Iterator[str]:
    if not asked:
        return
    kinds = [kind for kind in Kind if len(tasks) > 1 or kind not in OF_FRAMES]
    kind = _chosen(asked.get("kind"), "fault", [*map(str, kinds)] if tasks else ())
    task = _chosen(asked.get("task"), "task", tasks)
    given = {name: asked.get(name, str(one.usual)) for name, one in FAULT_NUMBERS.items()}
    step, ms = (
        _within(name, given[name], one.least, one.most, int) for name, one in FAULT_NUMBERS.items()
    )
    yield "--fault"
    yield f"{kind}{f'={ms}' if kind == Kind.DELAY else ''}:{task}@step:{step}"


def _texts(asked: Mapping[str, Any], name: str) -> Mapping[str, str]:
    given = asked.get(name, {})
    if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
        raise NotRunnable("form")
    return given


def _chosen(value: object, name: str, allowed: Any) -> str:
    if not isinstance(value, str) or value not in allowed:
        shown = str(value)[:60]
        raise NotRunnable("choice", name=name, value=shown, allowed=", ".join(allowed))
    return value


def _numbers(given: Mapping[str, str], known: set[str]) -> Iterator[str]:
    for name, text in given.items():
        _chosen(name, "numbers", sorted(known))
        number = _within(name, text, NUMBERS[name].least, NUMBERS[name].most, int)
        yield f"--{name}"
        yield f"cpu:{number}" if name == "devices" else f"{number}"


def _within(name: str, text: str, least: float, most: float, kind: type[int | float]) -> str:
    try:
        number = kind(text)
    except ValueError:
        number = kind(least) - 1
    if not least <= number <= most:
        raise NotRunnable(
            "number", name=name, value=text[:60], least=f"{least:,}", most=f"{most:,}"
        )
    return f"{number}"


def _options(given: Mapping[str, str], options: Mapping[str, Any]) -> Iterator[str]:
    for name, text in given.items():
        option = options[_chosen(name, "options", options)]
        yield "--option"
        yield f"{name}={_value(name, text, option)}"


def _value(name: str, text: str, option: Mapping[str, Any]) -> str:
    if option["type"] == "bool":
        return _chosen(text, name, ("true", "false"))
    if option["allowed"]:
        return _chosen(text, name, option["allowed"])
    kind = int if option["type"] == "int" else float
    return _within(name, text, -MOST if option["least"] is None else option["least"], MOST, kind)
