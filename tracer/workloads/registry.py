"""The bundled workloads by name."""

from collections.abc import Mapping

from tracer.model.refusal import Refusal, did_you_mean
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
    hint = did_you_mean(name, WORKLOADS) or "."
    raise UnknownWorkload(f"no workload is named {name!r}{hint} There are: {', '.join(WORKLOADS)}")
