"""multi_worker_mirrored in processes of its own: started by hand, and run natively."""

import json
from pathlib import Path

import pytest

from tests.launch.commands import pid_of, running, tracer
from tests.launch.test_by_hand import free_ports
from vizdist.analysis.loss_curve import loss_curve
from vizdist.store.trace import open_trace

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAME = ("digits-mlp", "--strategy", "multi_worker_mirrored")


def test_two_workers_that_are_started_by_hand_know_one_loss(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}))
    shared = ("task", *NAME, "--job", "worker", "--cluster", str(cluster), "--steps", "4")
    with running(*shared, "--index", "0", "--out", str(tmp_path / "w0")) as first:
        pid_of(tmp_path / "w0", "worker:0")  # it serves, and waits for worker:1
        done = tracer(*shared, "--index", "1", "--out", str(tmp_path / "w1"))
        assert (done.returncode, first.wait(60)) == (0, 0), done.stderr
    one, other = (loss_curve(open_trace(tmp_path / name)).mean for name in ("w0", "w1"))
    assert one == other
    assert len(one) == 4


def test_seen_hops_and_torchs_own_collectives_come_to_the_same_losses(tmp_path: Path) -> None:
    curves = []
    for kind in ("visible", "native"):
        out = tmp_path / f"{kind}.trace"
        more = ("--workers", "2", "--steps", "4", "--collectives", kind, "--out", str(out))
        done = tracer("run", *NAME, *more)
        assert done.returncode == 0, done.stderr
        curves.append([loss for _, loss in loss_curve(open_trace(out)).mean])
    visible, native = curves
    assert visible == native
