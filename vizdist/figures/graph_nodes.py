"""What a node is to the eye: its kind (hue and shape), its glyph, its short name, its phase.

Names and ops come from a trace and mean nothing to this file but text.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from tracer.model.graph import CONTROL_LOOP
from tracer.model.graph_table import NodeRow

Kind = Literal[
    "variable", "read", "compute", "update", "const", "control", "feed", "fetch", "send", "recv"
]
PHASES = ("read", "forward", "backward", "update")


class Look(NamedTuple):
    kind: Kind
    glyph: str


#: Glyphs of more than two letters are drawn as shapes by the canvas.
LOOKS: dict[str, Look] = {
    "VarHandleOp": Look("variable", "cylinder"),
    "Variable": Look("variable", "cylinder"),
    "VariableV2": Look("variable", "cylinder"),
    "ReadVariableOp": Look("read", "="),
    "Const": Look("const", "c"),
    "Placeholder": Look("feed", "tag"),
    "_Arg": Look("feed", "tag"),
    "_Retval": Look("fetch", "tag"),
    "NoOp": Look("control", "∅"),
    "Switch": Look("control", "fork"),
    "Merge": Look("control", "∨"),
    "Enter": Look("control", "⇥"),
    "Exit": Look("control", "⇤"),
    "NextIteration": Look("control", "↻"),
    "LoopCond": Look("control", "?"),
    "ControlTrigger": Look("control", "∅"),
    "Assign": Look("update", ":="),
    "AssignVariableOp": Look("update", ":="),
    "AssignAdd": Look("update", "+="),
    "AssignAddVariableOp": Look("update", "+="),
    "AssignSub": Look("update", "−="),
    "AssignSubVariableOp": Look("update", "−="),
    "MatMul": Look("compute", "×"),
    "BatchMatMul": Look("compute", "×"),
    "BatchMatMulV2": Look("compute", "×"),
    "Mul": Look("compute", "·"),
    "BiasAdd": Look("compute", "+"),
    "Add": Look("compute", "+"),
    "AddV2": Look("compute", "+"),
    "AddN": Look("compute", "Σ"),
    "Sub": Look("compute", "−"),
    "Neg": Look("compute", "−"),
    "RealDiv": Look("compute", "÷"),
    "Div": Look("compute", "÷"),
    "Relu": Look("compute", "hinge"),
    "Mean": Look("compute", "μ"),
    "Sum": Look("compute", "Σ"),
    "Identity": Look("compute", "="),
    "Reshape": Look("compute", "▭"),
    "Tile": Look("compute", "▦"),
    "Fill": Look("compute", "▪"),
    "Cast": Look("compute", "→"),
    "Transpose": Look("compute", "T"),
    "SparseSoftmaxCrossEntropyWithLogits": Look("compute", "H"),
    "SoftmaxCrossEntropyWithLogits": Look("compute", "H"),
    "Softmax": Look("compute", "σ"),
    "Sigmoid": Look("compute", "σ"),
}

#: The part of an `aten.NAME.overload` that is worth a glyph of its own.
ATEN_GLYPHS: dict[str, str] = {
    "mm": "×",
    "bmm": "×",
    "addmm": "×+",
    "matmul": "×",
    "add": "+",
    "sub": "−",
    "mul": "·",
    "div": "÷",
    "neg": "−",
    "relu": "hinge",
    "threshold_backward": "∂",
    "mean": "μ",
    "sum": "Σ",
    "t": "T",
    "view": "▭",
    "_log_softmax": "σ",
    "_log_softmax_backward_data": "∂",
    "nll_loss_forward": "H",
    "nll_loss_backward": "∂",
}

_ALIKE = ("Identity", "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond")
SHORT = 12  #: letters up to which a name keeps its scope
_GENERIC = ("", "train", "gradients", "tuple", "Read")  # parts of a name that tell nothing apart
_LOCAL_END = re.compile(r"_(?:arg|retval)_(.+)_\d+_\d+")  # of a session without a cluster
_WRITES = ("Apply", "Scatter")
_ENDS = {"_Send": "send", "_HostSend": "send", "_Recv": "recv", "_HostRecv": "recv"}


def is_end(row: NodeRow) -> bool:
    """A Send or Recv of a pair; those whose other end is the client are nodes like others."""
    return row.op in _ENDS and not row.attrs.get("client_terminated")


def is_send(row: NodeRow) -> bool:
    return _ENDS.get(row.op) == "send"


def look_of(row: NodeRow) -> Look:
    """Kind and glyph of any op; an unknown one computes and shows its first letter."""
    if row.op in _ENDS:
        is_client = bool(row.attrs.get("client_terminated"))
        if is_send(row):
            return Look("fetch" if is_client else "send", "tag")
        return Look("feed" if is_client else "recv", "tag")
    if row.op == "Identity" and row.name.endswith("/read"):  # of a ref variable
        return Look("read", "=")
    if row.op in LOOKS:
        return LOOKS[row.op]
    if any(word in row.op for word in _WRITES):
        return Look("update", "Δ")
    if row.op.startswith("aten."):
        name = row.op.split(".")[1] if row.op.count(".") else row.op
        is_gradient = name.endswith("backward")
        return Look(
            "compute", ATEN_GLYPHS.get(name, "∂" if is_gradient else name.lstrip("_")[:1] or "?")
        )
    is_gradient = row.op.endswith("Grad") or "_grad/" in row.name
    return Look("compute", "∂" if is_gradient else row.op[:1] or "?")


def short_name(row: NodeRow) -> str:
    """What tells a name from its neighbours: `train/update_w1/ApplyX` → `update_w1`."""
    if row.op in _ENDS and row.attrs.get("client_terminated"):
        return str(row.attrs.get("tensor_name", row.name)).removesuffix(":0")
    if row.op in ("_Arg", "_Retval") and (found := _LOCAL_END.fullmatch(row.name)):
        return found[1]
    if row.name.startswith(CONTROL_LOOP):  # named after an edge that it is not about
        return row.op
    parts = [part for part in row.name.split("/") if part not in _GENERIC]
    if len(parts) > 2 and parts[-2] == "replicate":  # a constant copied to each device
        return parts[-3]
    if len(parts) < 2:
        return parts[0] if parts else row.name
    *_, parent, last = parts
    stem = last.rstrip("0123456789").rstrip("_")
    if stem == row.op and row.op in _ALIKE:  # whose scope is that of many others
        return last
    if stem == row.op or last in (parent, "VarHandleOp"):
        return parent
    both = f"{parent}/{last}"
    keeps_parent = look_of(row).kind in ("variable", "read", "update")
    return both if keeps_parent or len(both) <= SHORT else last


def phases_of(nodes: Mapping[str, NodeRow], edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Phase of every node, from the shape of the graph: names play no part.

    `edges` are (source, consumer), pairs already joined. Variables, reads: read. What a fetched
    value needs: forward. What writes variables, and what waits for that: update. What the writers
    need beyond: backward. Everything else, and all of a graph that writes nothing, is forward.
    """
    inputs: dict[str, list[str]] = {name: [] for name in nodes}
    outputs: dict[str, list[str]] = {name: [] for name in nodes}
    for src, dst in edges:
        if src in inputs and dst in inputs:
            inputs[dst].append(src)
            outputs[src].append(dst)
    kinds = {name: look_of(row).kind for name, row in nodes.items()}
    writers = {name for name, kind in kinds.items() if kind == "update"}
    update = _reached(writers, outputs)
    fetched = {name for name, kind in kinds.items() if kind == "fetch" and name not in update}
    forward = _reached(fetched, inputs) - update
    backward = _reached(update, inputs) - update - forward if fetched else set()
    answer = dict.fromkeys(nodes, "forward")
    answer |= dict.fromkeys(backward, "backward") | dict.fromkeys(update, "update")
    read = {name for name, kind in kinds.items() if kind in ("variable", "read")}
    return answer | dict.fromkeys(read, "read")


def _reached(start: Iterable[str], follow: Mapping[str, list[str]]) -> set[str]:
    """Everything that can be got to, the start included."""
    seen = set(start)
    pending = list(seen)
    while pending:
        fresh = set(follow[pending.pop()]) - seen
        seen |= fresh
        pending.extend(fresh)
    return seen


_NARROW, _WIDE = set("iIjlt.,:;|!'/()[]1 f-r"), set("mwMW@%_")


def text_width(text: str, size: float = 11.0) -> float:
    """About how wide a name is in the interface font; the canvas cuts what is wider after all."""
    return sum(_letter(letter) for letter in text) * size


def _letter(letter: str) -> float:
    if ord(letter) > 0x2E80:
        return 1.0
    if letter in _NARROW:
        return 0.4
    return 0.95 if letter in _WIDE else 0.65
