"""The bundled workloads by name: modules, which a strategy spreads, and graphs, which say where."""

from collections.abc import Mapping

from tracer.model.refusal import Refusal, did_you_mean
from tracer.workloads import (
    bad_op,
    char_transformer,
    checkpoint_restore,
    cross_device_cond,
    cross_device_while,
    deadlock,
    diamond,
    digits_cnn,
    digits_mlp,
    model_parallel_mlp,
    nested_while,
    pipeline_steps,
    recv_dedup,
    rnn_while,
    variable_policies,
    wide_deep,
)
from tracer.workloads.factory import Factory

MODULES: Mapping[str, Factory] = {
    "digits-mlp": digits_mlp.workload,
    "digits-cnn": digits_cnn.workload,
    "char-transformer": char_transformer.workload,
    "wide-deep": wide_deep.workload,
    "rnn-while": rnn_while.workload,
    "checkpoint-restore": checkpoint_restore.workload,
}
GRAPHS: Mapping[str, Factory] = {
    "diamond": diamond.workload,
    "recv-dedup": recv_dedup.workload,
    "cross-device-cond": cross_device_cond.workload,
    "cross-device-while": cross_device_while.workload,
    "nested-while": nested_while.workload,
    "model-parallel-mlp": model_parallel_mlp.workload,
    "pipeline-steps": pipeline_steps.workload,
    "deadlock": deadlock.workload,
    "bad-op": bad_op.workload,
    "variable-policies": variable_policies.workload,
}
WORKLOADS: Mapping[str, Factory] = {**MODULES, **GRAPHS}


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
