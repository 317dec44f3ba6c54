"""The bundled workloads by name."""

import difflib
from collections.abc import Mapping

from tracer.model.refusal import Refusal
from tracer.workloads import digits_mlp
from tracer.workloads.workload import Workload

WORKLOADS: Mapping[str, Workload] = {
    module.WORKLOAD.name: module.WORKLOAD for module in (digits_mlp,)
}


class UnknownWorkload(Refusal):
    """No bundled workload has this name; the text names the nearest one."""


def find_workload(name: str) -> Workload:
    """Raises UnknownWorkload."""
    if workload := WORKLOADS.get(name):
        return workload
    near = difflib.get_close_matches(name, WORKLOADS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownWorkload(f"no workload is named {name!r}; {hint}There are: {', '.join(WORKLOADS)}")
