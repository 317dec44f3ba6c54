"""The bundled workloads by name."""

from collections.abc import Mapping

from tracer.model.refusal import Refusal, did_you_mean
from tracer.workloads import char_transformer, digits_cnn, digits_mlp
from tracer.workloads.factory import Factory

WORKLOADS: Mapping[str, Factory] = {
    "digits-mlp": digits_mlp.workload,
    "digits-cnn": digits_cnn.workload,
    "char-transformer": char_transformer.workload,
}


class UnknownWorkload(Refusal):
    """No bundled workload has this name; the text names the nearest one."""


def find_workload(name: str) -> Factory:
    """Raises UnknownWorkload."""
    if factory := WORKLOADS.get(name):
        return factory
    hint = did_you_mean(name, WORKLOADS) or "."
    raise UnknownWorkload(
        f"no workload is named {name!r}{hint} There are: {', '.join(WORKLOADS)}. "
        "A module of your own is named package.module:factory"
    )
