"""What is to be said of how the data were spread, in sentences that name their spans."""

from collections import Counter
from collections.abc import Iterator

from vizdist.analysis.example_grid import example_grid, twice
from vizdist.analysis.input_time import input_time
from vizdist.analysis.sentence import Sentence
from vizdist.analysis.who_saw_what import OUR_OWN, Data, Part, Taken, num_thrown, row_names
from vizdist.i18n.units import duration

NAMED = 4  #: steps that a sentence lists
UNKNOWN = "–"  #: a figure that the trace does not tell


def headline(data: Data) -> Sentence:
    """What became of the policy, with what it means for the examples."""
    if not data.taken:
        return _refused(data)
    first = data.taken[0]
    values: dict[str, object] = {
        "asked": first.asked,
        "effective": first.effective,
        "seen": UNKNOWN if data.num_seen is None else f"{data.num_seen:,}",
        "workers": first.workers,
        "replicas": len(data.rows),
        "steps": f"{len(data.by_step):,}" + (f" / {data.steps:,}" if data.is_window else ""),
        "files": first.files,
    }
    return _sentence(f"head.{_case(data)}", data.taken[:1], **values)


def _case(data: Data) -> str:
    first = data.taken[0]
    if len(data.rows) == 1 and first.workers == 1:
        return "single"
    if first.effective == OUR_OWN:
        return "turns" if first.workers == 1 else "own" if data.is_alone else "function"
    if first.workers == 1:
        return "cut"
    policies = {"DATA": "data", "FILE": "file", "OFF": "off", "HINT": "hint"}
    case = policies.get(first.effective, "cut")
    return f"auto_{case}" if first.asked == "AUTO" != first.effective else case


def _refused(data: Data) -> Sentence:
    first = data.refused[0]
    return Sentence(
        "head.refused", {"task": first.task}, proof=(first.span,), source="data.next status"
    )


def sentences(data: Data, step: int) -> list[Sentence]:
    """From what every run has to what is out of the ordinary."""
    if not data.taken:
        return []
    told = [*_batches(data), *_times(data), *_input_time(data), *_cycle(data), *_thrown(data)]
    odd = [*_end(data), *_empty(data), *_twice(data), *_gaps(data, step)]
    return [*_window(data), *told, *odd]


def _sentence(key: str, taken: tuple[Taken, ...] = (), **values: object) -> Sentence:
    step = taken[0].step if taken else 0
    return Sentence(key, values, "timeline", tuple(one.span for one in taken), step, "data.next")


def _window(data: Data) -> Iterator[Sentence]:
    """Which steps all else here is of."""
    if data.is_window:
        steps = sorted(data.by_step)
        values = {"read": f"{len(steps):,}", "steps": f"{data.steps:,}"}
        values |= {"first": f"{steps[0]:,}", "last": f"{steps[-1]:,}"}
        yield _sentence("window", data.taken[:1], **values)


def _batches(data: Data) -> Iterator[Sentence]:
    """The size that most steps have, and the steps of another."""
    totals = {step: _total(taken) for step, taken in data.by_step.items()}
    (usual, count), *_ = Counter(totals.values()).most_common(1)
    others = [step for step, total in totals.items() if total != usual]
    example = next(taken for step, taken in data.by_step.items() if totals[step] == usual)
    if not others:
        key = "batches_read" if data.is_window else "batches_all"
        yield _sentence(key, example, rows=f"{usual:,}", count=count)
        return
    short = data.by_step[others[0]]
    values = {"rows": f"{usual:,}", "short": f"{totals[others[0]]:,}"}
    yield _sentence("batches_short", short, **values, count=len(others), steps=_listed(others))


def _total(taken: tuple[Taken, ...]) -> int:
    return sum(one.rows for one in taken)


def _times(data: Data) -> Iterator[Sentence]:
    """How often examples were trained, where all steps and all their examples are known."""
    if data.is_window or not data.num_seen:
        return
    counts = Counter(example for part in data.parts for example in part.ids or ())
    least, most = min(counts.values()), max(counts.values())
    key = "trained_once" if most == 1 else "trained_each" if least == most else "trained"
    values = {"least": least, "most": most, "examples": f"{len(counts):,}"}
    yield _sentence(key, data.taken[:1], **values)


def _thrown(data: Data) -> Iterator[Sentence]:
    """What was read for nothing."""
    if thrown := num_thrown(data.taken):
        kept = sum(one.rows for one in data.taken)
        values = {"thrown": f"{thrown:,}", "read": f"{thrown + kept:,}"}
        yield _sentence("thrown", tuple(o for o in data.taken if o.num_discarded), **values)


def _input_time(data: Data) -> Iterator[Sentence]:
    """What inputs took of the time of the steps, and whether those read ahead were there."""
    time = input_time(data)
    if time is None:
        return
    values = {
        "task": time.task,
        "share": f"{100 * time.share:.0f} %",
        "each": duration(time.median_ns),
    }
    longest = max(time.taken, key=lambda one: one.took_ns)
    yield _sentence("input_time", (longest, *time.taken), **values)
    if not time.is_ahead:
        return
    if not time.waits:
        yield _sentence("ahead_all", time.taken[:1], task=time.task)
        return
    steps = f"{len(time.taken):,}"
    wait = duration(sum(one.waited_ns for one in time.waits))
    counted: dict[str, object] = {"steps": steps, "wait": wait, "count": len(time.waits)}
    key = "ahead_slow" if 2 * len(time.waits) >= len(time.taken) else "ahead_waited"
    yield _sentence(key, time.waits, task=time.task, **counted)


def _cycle(data: Data) -> Iterator[Sentence]:
    first = data.taken[0]
    if first.cycle > 1 and first.files:
        yield _sentence("cycle", (first,), cycle=first.cycle, files=first.files)


def _end(data: Data) -> Iterator[Sentence]:
    if last := tuple(one for one in data.taken if one.is_last):
        yield _sentence("ended_at", last, step=f"{max(one.step for one in last):,}")


def _empty(data: Data) -> Iterator[Sentence]:
    """Replicas that got nothing, and workers at the end of their data."""
    empty = [part for part in data.parts if not part.rows]
    ended = [part for part in empty if not part.has_value]
    for key, found in (("ended", ended), ("empty", [p for p in empty if p.has_value])):
        if found:
            steps = sorted({part.step for part in found})
            values = {"steps": _listed(steps), "task": found[0].task, "replica": found[0].replica}
            yield _of_parts(key, found, **values, count=len(steps))


def _of_parts(key: str, parts: list[Part], **values: object) -> Sentence:
    proof = tuple(part.span for part in parts)
    return Sentence(key, values, "timeline", proof, parts[0].step, "data.copy")


def _twice(data: Data) -> Iterator[Sentence]:
    shared = twice(data.parts)
    if not shared:
        return
    step, example = min(shared)
    holders = [p for p in data.parts if p.step == step and p.ids and example in p.ids]
    names = row_names(data.rows)
    rows = ", ".join(names[part.row] for part in holders[:NAMED])
    values = {"example": example, "step": f"{step:,}", "rows": rows}
    yield _of_parts("twice", holders, **values, count=len(shared))


def _gaps(data: Data, step: int) -> Iterator[Sentence]:
    """Said where all examples are on the page, so that it can be looked at."""
    grid = example_grid(data, step)
    if grid.is_whole and grid.unseen:
        last = data.taken[-1:]
        yield _sentence("gaps", last, examples=_listed(grid.unseen), count=len(grid.unseen))


def _listed(numbers: list[int] | tuple[int, ...]) -> str:
    shown = ", ".join(f"{number:,}" for number in numbers[:NAMED])
    return shown + (" …" if len(numbers) > NAMED else "")
