"""Which part of a data set is a worker's: the policy asked for, and what becomes of it.

    FILE  every n-th file; another worker's files are never opened
    DATA  every n-th slice of each global batch; everything is read, the rest is thrown away
    OFF   nothing is split: every worker goes over everything
    HINT  every n-th element, where the data set says that this is wanted
    FUNCTION  the data set's own function says what each worker reads, in batches of a replica
    AUTO  FILE where there are files, else DATA; too few files do not make it DATA
(TF `core/grappler/optimizers/data/auto_shard.cc`)
"""

from dataclasses import dataclass
from enum import StrEnum

from tracer.model.option import Declared, Option
from tracer.ops.kernel import OpError
from tracer.strategies.inputs.dataset import Dataset


class Policy(StrEnum):
    AUTO = "AUTO"
    FILE = "FILE"
    DATA = "DATA"
    OFF = "OFF"
    HINT = "HINT"
    FUNCTION = "FUNCTION"  #: whoever makes the data splits them: `distribute_from_function`


AUTOSHARD: Declared = {
    "autoshard": Option(
        Policy.AUTO.value,
        says="which part of the data is a worker's: its files, its slice of each batch, all, "
        "where the data set says so, or what its function of an InputContext gives",
        allowed=tuple(policy.value for policy in Policy),
    )
}


@dataclass(frozen=True, slots=True)
class Sharding:
    asked: Policy
    effective: Policy


def sharding_of(dataset: Dataset, asked: str, workers: int) -> Sharding:
    """Raises OpError, in TF's words, where the policy cannot split this data set."""
    policy = Policy(asked)
    effective = policy
    if policy is Policy.AUTO:
        effective = Policy.FILE if dataset.num_files else Policy.DATA
    if effective is Policy.FILE:
        _check_files(dataset, workers)
    if effective is Policy.HINT and not dataset.takes_hint:
        raise OpError(
            "INVALID_ARGUMENT",
            "HINT needs a data set that says where to split, and this one does not: give its "
            "workload --option hint=true, or ask for --option autoshard=AUTO",
        )
    return Sharding(policy, effective)


def _check_files(dataset: Dataset, workers: int) -> None:
    if not dataset.num_files:
        raise OpError(
            "NOT_FOUND",
            "Found an unshardable source dataset: it has no files, and FILE shards files; "
            "ask for --option autoshard=DATA, or for AUTO, which takes DATA here",
        )
    if dataset.num_files < workers:
        raise OpError(
            "INVALID_ARGUMENT",
            f"Could not apply FILE based sharding: the dataset only has {dataset.num_files} "
            f"file(s), which is not enough for the required {workers} shards/workers; "
            "ask for --option autoshard=DATA or OFF, or for fewer --workers",
        )
