"""Which task of which cluster this process is, where no launcher started it.

--cluster FILE --job J --index I        said in flags
TF_CONFIG                               its "task" says it, where the flags do not
RANK, WORLD_SIZE, MASTER_ADDR …         torchrun's: rank i is worker:i
"""

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tracer.launch.plan import RUN_ID_VARIABLE, new_run_id, run_id_of
from tracer.launch.torchrun import Meeting, Ranks
from tracer.model.cluster import (
    ClusterConfig,
    ClusterError,
    ClusterSpec,
    TaskName,
    parse_cluster,
)
from tracer.model.json_text import read_text
from tracer.model.refusal import Refusal


class NoPlace(Refusal):
    """Nothing says which task this is, or two things say different ones."""


@dataclass(frozen=True, slots=True)
class Place:
    """`introduce` takes our address once we serve, and returns the cluster with everybody's.

    Where one command line is of all tasks, `trace` names our folder within `--out`, and
    `local_rank` counts the tasks of this host; else "" and None.
    """

    task: TaskName
    cluster: ClusterSpec
    run_id: str
    introduce: Callable[[str], ClusterSpec]
    trace: str = ""
    local_rank: int | None = None


def place_of(parsed: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Place:
    """Raises NoPlace, ClusterError, OSError, or RunFailed where ranks do not find each other."""
    text = environment.get("TF_CONFIG", "")
    if parsed.cluster:
        text = read_text(Path(parsed.cluster), "the cluster description", ClusterError)
    if text:
        return _described(parsed, parse_cluster(text))
    if (ranks := Ranks.of_environment(environment)) is not None:
        return _of_rank(parsed, ranks, environment)
    raise NoPlace(
        "a task needs to know its cluster: say --cluster FILE, set TF_CONFIG, or start it with "
        "torchrun"
    )


def _described(parsed: argparse.Namespace, config: ClusterConfig) -> Place:
    cluster, task = config.cluster, _named(parsed) or config.task
    known = ", ".join(map(str, cluster.tasks()))
    if task is None:
        raise NoPlace(
            "the cluster description does not say which task this is: say --job and --index; it "
            f"has {known}"
        )
    if task not in set(cluster.tasks()):
        raise NoPlace(f"task {task} is not in the cluster; it has {known}")
    return Place(
        task, cluster, run_id_of(cluster), lambda address: cluster.with_address(task, address)
    )


def _named(parsed: argparse.Namespace) -> TaskName | None:
    """What the flags say."""
    if (parsed.job is None) != (parsed.index is None):
        raise NoPlace("--job J and --index I name a task together; say both, or neither")
    return None if parsed.job is None else TaskName(parsed.job, parsed.index)


def _of_rank(parsed: argparse.Namespace, ranks: Ranks, environment: Mapping[str, str]) -> Place:
    task, named = ranks.task, _named(parsed)
    if named not in (None, task):
        raise NoPlace(
            f"--job {named.job} --index {named.index}: RANK={ranks.rank} says {task}; leave --job "
            "and --index out, or give --cluster FILE"
        )
    cluster = ranks.cluster
    meeting = Meeting(ranks, parsed.connect_timeout)
    again = f".{ranks.attempt}" if ranks.attempt else ""
    return Place(
        task,
        cluster,
        meeting.run_id(environment.get(RUN_ID_VARIABLE) or new_run_id()),
        meeting.introduce,
        f"{task.job}-{task.index}{again}.trace",
        ranks.local_rank,
    )
