"""Scopes of nodes, and the names that folded ones have in the address.

A folded scope holds the nodes of one scope, on one device (band), of one family: ops of one phase,
or variables, reads, updates, or the nodes of one loop.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tracer.model.cluster import DeviceName
from tracer.model.graph import CONTROL_LOOP

BETWEEN = " ⇉ "  #: between the ids of the two tiles of a bundle
_OUTER = ("gradients", "train")  # scopes of a whole pass: phases tell these already
_PHASES = ("read", "forward", "backward", "update")
FRAME = "frame"  #: the family of all that turns in a loop, whatever it does
FAMILIES = (*_PHASES, "variables", "reads", "assignments", "updates", FRAME)
_PASSES = {"backward": "gradients", "update": "train", "updates": "train"}
_STATE = {  # parts of op names
    "variables": ("VarHandle", "Variable"),
    "reads": ("ReadVariable",),
    "assignments": ("Assign",),
    "updates": ("Apply", "Scatter"),
}


class Scope(NamedTuple):
    """What the id of a folded scope says."""

    name: str
    family: str
    band: str

    @property
    def label(self) -> str:
        return scope_label(self.name)

    @property
    def where(self) -> str:
        """The task and device as lanes name them: `worker:0 CPU:0`."""
        try:
            device = DeviceName.parse(self.band)
        except ValueError:
            return self.band
        return f"{device.task_name} {device.short}"

    def is_of_family(self, op: str) -> bool:
        if self.family == FRAME:
            return True
        return family_of(op) == (self.family if self.family in _STATE else "")

    def holds(self, node: str) -> bool:
        """Whether a node's name is in this scope and of this pass."""
        if self.family == FRAME:
            return f"{scope_of(node.removeprefix(CONTROL_LOOP), 99)}/".startswith(f"{self.name}/")
        outer = node.split("/", 1)[0]
        passes = _PASSES.get(self.family, "")
        is_of_pass = outer == passes if passes else outer not in _OUTER
        is_of_pass |= self.family == "assignments"  # of counters and of moving averages
        return is_of_pass and f"{scope_of(node, 99)}/".startswith(f"{self.name}/")


def family_of(op: str) -> str:
    """Of what touches a variable, what it does to it; "" for any other op."""
    order = ("updates", "assignments", "reads", "variables")
    return next((one for one in order if any(part in op for part in _STATE[one])), "")


def group_id(scope: str, band: str, family: str) -> str:
    """Names a folded scope in URLs; no node's name has these letters in it."""
    return f"{scope}/* {family} @ {band}"


def parse(name: str) -> Scope | None:
    """The scope that an id names; None: it is the name of something else."""
    scope, found, rest = name.rpartition("/* ")
    family, at, band = rest.partition(" @ ")
    return Scope(scope, family, band) if found and at and family in FAMILIES else None


def label_of(name: str) -> str:
    """What a folded scope is called, from its id; any other name is called by itself."""
    scope = parse(name)
    return scope.label if scope else name


def bundle_id(src: str, dst: str, *, control: bool) -> str:
    """Names the pairs between two tiles in URLs."""
    return f"{src}{BETWEEN}{dst}{' ^' if control else ''}"


def ends_of(name: str) -> tuple[str, str] | None:
    """The two tiles of a bundle."""
    if BETWEEN not in name:
        return None
    src, dst = name.removesuffix(" ^").split(BETWEEN, 1)
    return src, dst


class Said(NamedTuple):
    """A folded scope, or the pairs between two, in words; `family` is "" for pairs."""

    title: str
    family: str
    where: str


def said(name: str) -> Said | None:
    if ends := ends_of(name):
        places = [scope.where for end in ends if (scope := parse(end))]
        return Said(" → ".join(map(label_of, ends)), "", " → ".join(places))
    scope = parse(name)
    return Said(scope.label, scope.family, scope.where) if scope else None


def scope_of(name: str, depth: int) -> str:
    """The first `depth` parts of a name's scope; "" for a name without one.

    A layer has one scope in all phases: `gradients/fc1/mm` and `train/update_fc1/…` are in `fc1`.
    """
    parts = [part for part in name.split("/")[:-1] if part != "tuple"]
    while len(parts) > 1 and parts[0] in _OUTER:
        parts = parts[1:]
    if parts and name.startswith("train/"):
        parts[0] = parts[0].removeprefix("update_")
    return "/".join(parts[:depth])


def scope_label(scope: str) -> str:
    """A scope in few letters: its last part, with what it numbers."""
    *outer, last = scope.split("/")
    return f"{outer[-1]}/{last}" if outer and last.isdecimal() else last


def shared_scope(scopes: Iterable[str]) -> str:
    """The longest scope that holds all of them."""
    first, *others = [scope.split("/") for scope in scopes]
    for other in others:
        same = [a == b for a, b in zip(first, other, strict=False)]
        first = first[: [*same, False].index(False)]
    return "/".join(first)
