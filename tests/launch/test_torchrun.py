"""Tasks that torchrun starts: they find each other in its store, and are one cluster."""

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch.distributed

from tests.launch.commands import WAIT_S, is_listened_to, manifest
from tracer.launch.failure import RunFailed
from tracer.launch.place import NoPlace, Place, place_of
from tracer.launch.torchrun import Meeting, Ranks
from tracer.model.cluster import ClusterError, ClusterSpec, TaskName
from vizdist.analysis.loss_curve import loss_curve
from vizdist.cli import main as vizdist
from vizdist.store.trace import open_trace

dist: Any = torch.distributed  #: most of it has no types
RANK_1 = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
W0 = TaskName("worker", 0)


def flags(**said: object) -> Namespace:
    return Namespace(**{"cluster": None, "job": None, "index": None, "connect_timeout": 60, **said})


def test_a_rank_is_a_worker_of_as_many() -> None:
    ranks = Ranks.of_environment({**RANK_1, "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "3"})
    assert ranks == Ranks(1, 2, "localhost:29500", 1, 2, 3)
    assert ranks.task == TaskName("worker", 1)
    assert ranks.cluster.to_json() == {"worker": {"0": "127.0.0.1:0", "1": "127.0.0.1:0"}}
    assert Ranks.of_environment({}) is None


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"RANK": "2"}, "RANK=2: must be a whole number from 0 to 1"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE=two: must be a whole number from 1 to 1024"),
        ({"MASTER_PORT": ""}, "RANK is set, and MASTER_PORT not: start the task with torchrun"),
        ({"MASTER_PORT": "70000"}, "MASTER_ADDR and MASTER_PORT: .* a port from 0 to 65535"),
        ({"LOCAL_WORLD_SIZE": "1"}, "2 ranks are on several hosts .1 here.: name the address"),
    ],
)
def test_what_no_rank_can_be_is_refused(changed: Mapping[str, str], says: str) -> None:
    with pytest.raises(ClusterError, match=says):
        described({**RANK_1, **changed})


def described(environment: Mapping[str, str]) -> ClusterSpec:
    ranks = Ranks.of_environment(environment)
    assert ranks is not None
    return ranks.cluster


@pytest.fixture
def rank_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, str]]]:
    """The environment of a rank, beside a store as torchrun keeps one."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    yield lambda rank, size=2, **more: {
        **port, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), **more
    }  # fmt: skip
    del store


def test_ranks_tell_each_other_where_they_serve(
    rank_of: Callable[..., dict[str, str]],
) -> None:
    def arrive(rank: int) -> tuple[Place, object]:
        place = place_of(flags(), rank_of(rank))
        return place, place.introduce(f"127.0.0.1:{4000 + rank}").to_json()

    with ThreadPoolExecutor() as pool:
        (one, first), (other, second) = pool.map(arrive, range(2))
    assert first == second == {"worker": {"0": "127.0.0.1:4000", "1": "127.0.0.1:4001"}}
    assert one.run_id == other.run_id
    assert [one.trace, other.trace] == ["worker-0.trace", "worker-1.trace"]
    assert [one.local_rank, other.local_rank] == [0, 1]


def test_ranks_that_are_started_again_do_not_meet_those_before(
    rank_of: Callable[..., dict[str, str]],
) -> None:
    first, again = (
        place_of(flags(), rank_of(0, 1, TORCHELASTIC_RESTART_COUNT=str(count))) for count in (0, 1)
    )
    assert first.run_id != again.run_id
    assert (first.trace, again.trace) == ("worker-0.trace", "worker-0.1.trace")


def test_a_rank_that_does_not_come_is_named(rank_of: Callable[..., dict[str, str]]) -> None:
    ranks = Ranks.of_environment(rank_of(0, 3))
    assert ranks is not None
    with pytest.raises(RunFailed, match="ranks that have not come: 1, 2"):
        Meeting(ranks, 0.2).introduce("127.0.0.1:4000")
    with pytest.raises(RunFailed, match="rank 0 has not come"):
        place_of(flags(connect_timeout=0.2), rank_of(1, 3, TORCHELASTIC_RESTART_COUNT="7"))


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"job": "worker", "index": 0}, "RANK=1 says worker:1; leave --job and --index out"),
        ({"job": "worker"}, "--job J and --index I name a task together"),
    ],
)
def test_flags_that_name_another_task_are_refused(said: dict[str, object], says: str) -> None:
    with pytest.raises(NoPlace, match=says):
        place_of(flags(**said), RANK_1)


def test_a_task_is_told_by_tf_config_where_no_flag_says_it() -> None:
    config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    place = place_of(flags(), {"TF_CONFIG": json.dumps(config), **RANK_1})
    assert place.task == TaskName("worker", 1)
    assert place_of(flags(job="worker", index=0), {"TF_CONFIG": json.dumps(config)}).task == W0
    alone = {"TF_CONFIG": json.dumps(config["cluster"])}
    with pytest.raises(NoPlace, match=r"does not say which task .* it has worker:0, worker:1"):
        place_of(flags(), alone)
    with pytest.raises(NoPlace, match="start it with torchrun"):
        place_of(flags(), {})


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("how", [(), ("--standalone", "--max-restarts", "1")])
def test_two_processes_of_torchrun_train_as_one_group(tmp_path: Path, how: tuple[str, ...]) -> None:
    out = tmp_path / "out"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *how]
    task = ["-m", "tracer", "task", "digits-mlp", "--strategy", "multi_worker_mirrored"]
    done = subprocess.run(
        [*torchrun, *task, "--steps", "4", "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=2 * WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    folders = [out / f"worker-{rank}.trace" for rank in range(2)]
    one, other = (loss_curve(open_trace(folder)).mean for folder in folders)
    assert one == other
    assert len(one) == 4
    tasks = [each for folder in folders for each in manifest(folder)["tasks"] if each["address"]]
    assert [each["task"] for each in tasks] == ["worker:0", "worker:1"]
    assert not [each["address"] for each in tasks if is_listened_to(each["address"])]
    whole = tmp_path / "whole.trace"
    assert vizdist(["import", *map(str, folders), "-o", str(whole)]) == 0
    assert not open_trace(whole).problems
