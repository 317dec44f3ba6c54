"""The sequence of calls as assets/sequence.mjs draws it: lifelines, and calls with their words."""

import re
from collections.abc import Sequence
from typing import Any

from vizdist.analysis.call_sequence import CLIENT, RECV, UNKNOWN, Bundle, Call, CallSequence
from vizdist.i18n import Lang, t
from vizdist.i18n.units import duration, size, us

Json = dict[str, Any]
MOST = 40  #: calls of a bundle that can be looked at one by one, those that took longest
FLAGS = ("dead", "notice", "failed", "unfinished", "deferred")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def time_text(ns: int) -> str:
    """Within a step: whole µs below 10 ms."""
    return us(ns) if ns < 10_000_000 else str(duration(ns))


def _ticks(total_ns: int) -> list[tuple[int, str]]:
    """Round times, all in the unit of the last one."""
    times = round_times(total_ns)
    in_ms = times[-1] >= 10_000_000
    return [(ns, f"{ns / 1e6:g} ms" if in_ms else time_text(ns)) for ns in times]


def method_title(method: str) -> str:
    """`recv_tensor`, as the field calls what services name `RecvTensor`."""
    return _INNER_CAPITAL.sub("_", method).lower()


def call_lines(found: CallSequence, lang: Lang) -> Json:
    return {
        "total": max(found.step.duration, 1),
        "lifelines": [_lifeline(name, found, lang) for name in found.lifelines],
        "local": t("rendezvous.calls.local", lang) if found.is_local else "",
        "bundles": [_bundle(at, bundle, lang) for at, bundle in enumerate(found.bundles)],
        "ticks": _ticks(found.step.duration),
        "words": {key: t(f"rendezvous.calls.{key}", lang) for key in ("open", "fold")},
    }


def _lifeline(name: str, found: CallSequence, lang: Lang) -> Json:
    label = t("rendezvous.calls.client", lang) if name == CLIENT else name
    role = "client" if name == CLIENT else "master" if name == found.master else ""
    note = t("rendezvous.calls.master", lang) if role == "master" else ""
    return {"id": name, "label": label, "role": role, "note": note}


def _bundle(at: int, bundle: Bundle, lang: Lang) -> Json:
    calls = sorted(bundle.calls, key=lambda call: call.sent - call.done)[:MOST]
    drawn = [_call(call, lang) for call in sorted(calls, key=lambda call: call.sent)]
    if len(bundle.calls) == 1:
        return drawn[0] | {"id": str(at), "calls": []}
    return _joined(bundle.calls, lang) | {"id": str(at), "calls": drawn}


def besides(dead: int, signals: int, lang: Lang) -> list[str]:
    """What came and is no value, counted in words."""
    counts = (("no_values", dead), ("signals", signals))
    return [t(f"rendezvous.calls.{key}", lang, count=count) for key, count in counts if count]


def _values(calls: Sequence[Call], lang: Lang) -> str:
    """How many values came, of how many bytes, and what came besides; nothing of other calls."""
    count, moved = sum(call.is_value for call in calls), str(size(sum(c.bytes for c in calls)))
    values = [t("rendezvous.calls.values", lang, count=count, bytes=moved)] if count else []
    dead = sum(call.is_dead for call in calls)
    signals = sum(call.is_control and not call.is_dead for call in calls)
    return t("rendezvous.calls.comma", lang).join([*values, *besides(dead, signals, lang)])


def _joined(calls: Sequence[Call], lang: Lang) -> Json:
    """Calls of one kind as one, from the first to the last instant of each thing that happens."""
    first = calls[0]
    known = [call for call in calls if call.served != UNKNOWN]
    title = f"{len(calls):,} {method_title(first.method)}"
    lost = sum(call.is_failed or call.is_unfinished for call in calls)
    notes = [t("rendezvous.calls.lost", lang, count=lost)] if lost else []
    notes += [t("rendezvous.calls.deferred", lang)] if any(c.is_deferred for c in calls) else []
    return {
        **_ends(first),
        "served": min((call.served for call in known), default=UNKNOWN),
        "exists": max((call.exists for call in known), default=UNKNOWN),
        "answered": max((call.answered for call in known), default=UNKNOWN),
        "done": max(call.done for call in calls),
        "bytes": sum(call.bytes for call in calls),
        "label": title,
        "reply": _values(calls, lang),
        "held": "",
        "note": t("rendezvous.calls.comma", lang).join(notes),
        "says": t("rendezvous.calls.several", lang, **_who(first, title)),
        **{flag: all(getattr(call, f"is_{flag}") for call in calls) for flag in FLAGS},
    }


def _who(call: Call, title: str) -> dict[str, str]:
    return {"method": title, "source": call.source, "target": call.target}


def _call(call: Call, lang: Lang) -> Json:
    method = method_title(call.method)
    title = f"{method} {call.tensor}".strip()
    held = call.exists - call.served
    took = time_text(max(call.done - call.sent, 0))
    return {
        **_ends(call),
        "served": call.served,
        "exists": call.exists,
        "answered": call.answered,
        "done": call.done,
        "bytes": call.bytes,
        "label": title,
        "brief": call.tensor.rpartition("/")[2],
        "reply": _reply(call, lang),
        "held": t("rendezvous.calls.held", lang, time=time_text(held)) if held > 0 else "",
        "note": t("rendezvous.calls.deferred", lang) if call.is_deferred else "",
        "says": t("rendezvous.calls.says", lang, **_who(call, title), took=took),
        "sel": f"key:{call.key}" if call.key else f"rpc:{call.span}",
        "key": call.key,
        "span": call.span,
        **{flag: getattr(call, f"is_{flag}") for flag in FLAGS},
    }


def _ends(call: Call) -> Json:
    return {
        "source": call.source,
        "target": call.target,
        "sent": call.sent,
        "kind": "recv" if call.method == RECV else "notice" if call.is_notice else "run",
    }


def _reply(call: Call, lang: Lang) -> str:
    """What comes back: a value, the end of the call, why there is none."""
    if call.is_unfinished:
        return t("rendezvous.calls.unfinished", lang)
    if call.is_failed:
        return t("rendezvous.calls.failed", lang, method=method_title(call.method))
    if call.method != RECV:
        return t("rendezvous.calls.done", lang, method=method_title(call.method))
    if call.is_dead:
        return t("rendezvous.calls.dead", lang, tensor=call.tensor)
    return f"{call.tensor}, {size(call.bytes)}" if call.bytes else call.tensor


def round_times(total_ns: int, most: int = 6) -> list[int]:
    """Round times of a step, from 0."""
    power = 10 ** len(str(max(total_ns // most, 1)))
    steps = (power * part // 10 for part in (1, 2, 5, 10))
    every = next((step for step in steps if step and total_ns / step <= most), power)
    return list(range(0, total_ns + 1, every))
