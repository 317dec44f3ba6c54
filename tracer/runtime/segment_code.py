"""Segments as Python functions: one line a node, kernels and constants given in the namespace.

No name, key or value of a graph is ever written into the text, only numbers of ours. `v3` is value
3, `k5` the kernel of node 5, `c5` its key, `s5` its recording site, `n5` its key's number. Each
segment has a plain and a traced text; they differ by the record calls around the same lines.

    def segment(frame, send, launch, args, results):      # plain
     v3 = frame[0]
     v4 = k5(v3)
     send(c6, v4)
     launch(7, 0, v4)      # an asynchronous kernel, whose span is the run's

    def segment(frame, …, ctx, take, row, ready):   # traced: around v4 = k5(v3) stand
     s = now()
     b, a, z, i, span = take()
     begun(b, a, s5, row, step, 0, hi, lo, span, parent, s, i)
     v4 = k5(v3)
     e5 = now()
     ended(b, z, s, e5, ready, getattr(v4, 'nbytes', 0), …, i)

On a GPU the span around the call is a launch, `g = mark()` before it and `launched(…)` after it put
the events of the op itself on the stream, and `h6` hands values over in place of `send`.

The record calls are the writer's `begin` and `end`, spelled out: called as functions they would
cost a small kernel's time again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from tracer.model.trace_folder import Flag
from tracer.record.recorder import Recorder
from tracer.record.ring import BEGUN, ENDED
from tracer.runtime.gpu import Gpu
from tracer.runtime.prepared import Kind, PreparedNode
from tracer.runtime.segments import Segment

_PLAIN = "def segment(frame, send, launch, args, results):"
_TRACED = "def segment(frame, send, launch, args, results, ctx, take, row, ready):"


@dataclass(frozen=True, slots=True)
class SegmentCode:
    """Both texts of a segment.

    `node_at` says of each which node its lines belong to, -1 for none; `site` is that of one of its
    nodes: they share a lane.
    """

    plain: Callable[..., None]
    traced: Callable[..., None]
    node_at: Mapping[CodeType, Sequence[int]]
    site: int

    def failed_node(self, error: BaseException) -> int:
        """The position of the node whose line raised, -1 if none did."""
        trace = error.__traceback__
        while trace is not None:
            if (nodes := self.node_at.get(trace.tb_frame.f_code)) is not None:
                return nodes[trace.tb_lineno - 1]
            trace = trace.tb_next
        return -1


def moved_values(node: PreparedNode) -> tuple[int, ...]:
    """Values whose bytes a node's span tells: what a kernel made, what was handed over.

    A variable, or an output that a kernel leaves out (None), has no bytes.
    """
    return node.outputs if node.kind in (Kind.KERNEL, Kind.ARG) else node.inputs


def compile_segment(
    nodes: Sequence[PreparedNode],
    segment: Segment,
    slots: Mapping[int, int],
    recorder: Recorder,
    gpu: Gpu | None = None,
) -> SegmentCode:
    namespace: dict[str, Any] = {
        "now": recorder.now,
        "begun": BEGUN.pack_into,
        "ended": ENDED.pack_into,
        "fail": lambda span, error: recorder.annotate(span, {}, error=str(error)),
    }
    if gpu is not None:
        namespace |= {"mark": gpu.mark, "launched": gpu.launched}
    for position in segment.nodes:
        node = nodes[position]
        namespace[f"k{position}"] = node.kernel
        namespace[f"c{position}"] = node.key
        namespace[f"s{position}"] = node.site
        namespace[f"n{position}"] = node.key_number
        namespace[f"d{position}"] = node.run_site
        namespace[f"h{position}"] = node.sends
    writer = _Text(nodes, segment, slots)
    texts = writer.lines(_PLAIN, traced=False), writer.lines(_TRACED, traced=True)
    plain, traced = (_function(lines, namespace) for lines in texts)
    node_at = {
        function.__code__: [position for _, position in lines]
        for function, lines in zip((plain, traced), texts, strict=True)
    }
    site = nodes[segment.nodes[0]].site
    if gpu is None:
        return SegmentCode(plain, traced, node_at, site)
    return SegmentCode(gpu.on_stream(plain), gpu.on_stream(traced), node_at, site)


_Lines = list[tuple[str, int]]  # a line and the position of its node, -1: of none


def _function(lines: _Lines, namespace: dict[str, Any]) -> FunctionType:
    text = "\n".join(line for line, _ in lines)
    scope = dict(namespace)
    exec(compile(text, "<segment>", "exec"), scope)  # text of ours, see above
    function: FunctionType = scope["segment"]
    return function


class _Text:
    def __init__(
        self, nodes: Sequence[PreparedNode], segment: Segment, slots: Mapping[int, int]
    ) -> None:
        self._nodes = nodes
        self._segment = segment
        self._slots = slots
        self._here = frozenset(segment.nodes)
        self._last_use = {
            value: position for position in segment.nodes for value in nodes[position].inputs
        }

    def lines(self, head: str, *, traced: bool) -> _Lines:
        body: _Lines = [*self._loads()]
        for position in self._segment.nodes:
            node = self._nodes[position]
            call = self._call(node, position, traced=traced)
            is_recorded = traced and node.kind is not Kind.ASYNC
            body += self._recorded(node, position, call) if is_recorded else [(call, position)]
            body += self._after(node, position)
        if not traced:
            return [(head, -1), *((f" {line}", at) for line, at in body), (" return", -1)]
        return [
            (head, -1),
            (" hi, lo, parent, step, _ = ctx", -1),
            (" try:", -1),
            *((f"  {line}", at) for line, at in body),
            ("  return", -1),
            (" except Exception as error:", -1),
            ("  fail(span, error)", -1),
            (f"  ended(b, z, s, now(), ready, 0, 0, 0, 0, {Flag.ERROR}, i)", -1),
            ("  raise", -1),
        ]

    def _loads(self) -> Iterator[tuple[str, int]]:
        for value in self._segment.loads:
            yield f"v{value} = frame[{self._slots[value]}]", -1
            if value in self._segment.frees:
                yield f"frame[{self._slots[value]}] = None", -1

    def _call(self, node: PreparedNode, position: int, *, traced: bool) -> str:
        inputs = ", ".join(f"v{value}" for value in node.inputs)
        if node.kind is Kind.ASYNC:
            return f"launch({position}, {self._ready(node) if traced else 0}, {inputs})"
        if node.kind is Kind.ARG:
            inputs = f"args[c{position}]"
        if node.is_read:
            inputs = f"k{position}({inputs})"
        if node.sends is not None:
            span = ", False, span, ctx" if traced else ""
            return f"h{position}(send, c{position}, {inputs}{span})"
        if node.kind is Kind.SEND:
            span = ", False, span" if traced else ""
            return f"send(c{position}, {inputs}{span})"
        if node.kind is Kind.RETVAL:
            return f"results[c{position}] = {inputs}"
        source = f"k{position}({inputs})"
        outputs = ", ".join(f"v{value}" for value in node.outputs)
        return f"{outputs} = {source}" if outputs else f"t = {source}" if node.drops else source

    def _recorded(self, node: PreparedNode, position: int, call: str) -> _Lines:
        ready = self._ready(node)
        sizes = (f"getattr(v{value}, 'nbytes', 0)" for value in moved_values(node))
        num_bytes = " + ".join(sizes) or "0"
        version = f"v{node.variable}.version" if node.variable >= 0 else "0"
        before = [] if node.writes or node.variable < 0 else [(f"r = {version}", position)]
        extra = version if node.writes else "r" if before else "0"
        flags = f"{Flag.DROPPED} * t" if node.drops else "0"
        after: _Lines = []
        if node.kind is Kind.KERNEL and node.run_site:
            before.append(("g = mark()", position))
            line = f"launched(d{position}, ctx, span, s, g, {num_bytes}, {extra})"
            after.append((line, position))
            num_bytes = extra = "0"
        return [
            ("s = now()", position),
            ("b, a, z, i, span = take()", position),
            (f"begun(b, a, s{position}, row, step, 0, hi, lo, span, parent, s, i)", position),
            *before,
            (call, position),
            *after,
            (f"e{position} = now()", position),
            (
                f"ended(b, z, s, e{position}, {ready}, {num_bytes}, 0, {extra}, n{position}, "
                f"{flags}, i)",
                position,
            ),
        ]

    def _ready(self, node: PreparedNode) -> str:
        """When the inputs were there: the end of the last one here, else the segment's start."""
        here = [position for position in node.after if position in self._here]
        return f"e{max(here)}" if here else "ready"

    def _after(self, node: PreparedNode, position: int) -> _Lines:
        """Crossing values are left in the frame; what nobody here reads again is let go."""
        made = () if node.kind is Kind.ASYNC else node.outputs
        stored = [value for value in made if value in self._segment.stores]
        gone = [value for value in node.inputs if self._last_use[value] == position]
        gone += [value for value in made if value not in self._last_use]
        lines: _Lines = [(f"frame[{self._slots[value]}] = v{value}", -1) for value in stored]
        if gone:
            lines.append((f"del {', '.join(f'v{value}' for value in dict.fromkeys(gone))}", -1))
        return lines
