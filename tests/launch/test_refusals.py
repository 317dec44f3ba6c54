"""Requests that cannot be served: exit 2, the next step, and nothing started."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tracer.cli import main
from tracer.launch.account import LAUNCHER, FolderError, claim_folder, default_folders
from tracer.launch.plan import Plan

SERVERS = ("digits-mlp", "--strategy", "parameter_server_v1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("digits-mpl", "--strategy", "one_device"), "did you mean digits-mlp"),
        (("digits-mlp", "--strategy", "one_devic"), "did you mean one_device"),
        (("digits-mlp", "--strategy", "one_device", "--setps", "3"), "did you mean --steps"),
        (("digits-mlp", "--strategy", "one_device", "--ps", "2"), "leave --ps out"),
        (("digits-mlp", "--strategy", "one_device", "--devices", "tpu"), "cpu:N"),
        (("digits-mlp",), "say --strategy"),
        (("missing.json",), "missing.json: No such file"),
        (("digit-mlp",), "did you mean digits-mlp"),
        (("missing.json", "--workers", "2"), "--workers is for modules"),
        (("missing.json", "--option", "a=1"), "--option is for modules"),
        (("diamond", "--ps", "2"), "--ps is for modules; a graph names its devices itself"),
        (("diamond", "--option", "size=0"), "size must be a whole number from 1 on"),
        (("digits-mlp", "--strategy", "nothing"), "unknown strategy 'nothing'. There are: one_d"),
        (("digits-mlp", "--strategy", "parameter_server_v1", "--workers", "9999"), "1 to 1024"),
        (("digits-mlp", "--strategy=one_device", "--step-timeot=3"), "did you mean --step-timeout"),
        ((*SERVERS, "--option", "backup_workers=1"), "without sync=true no update waits"),
        ((*SERVERS, "--option", "sync=true", "--option", "backup_workers=2"), "leave at most 1"),
    ],
)
def test_a_wrong_request_exits_2_with_the_next_step(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    says: str,
) -> None:
    try:
        code = main(["run", *arguments, "--out", str(tmp_path / "t")])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ("--steps", "3"),
        ("--strategy", "one_device"),
        ("--option", "batch=4"),
        ("--seed", "7"),
        ("--trace", "none"),
    ],
)
def test_a_task_that_only_serves_refuses_what_is_for_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, str]
) -> None:
    cluster = tmp_path / "cluster.json"
    task = ("--job", "ps", "--index", "0", "--cluster", str(cluster))
    cluster.write_text(json.dumps({"ps": ["127.0.0.1:0"], "worker": ["127.0.0.1:1"]}))
    assert main(["task", *task, *flags, "--out", str(tmp_path / "t")]) == 2
    said = capsys.readouterr().err
    assert f"{flags[0]} is for a task that trains" in said
    assert "A task that serves takes --devices, --ps-devices, --detail" in said
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("graph", ["diamond", "own.json"])
def test_a_task_started_by_hand_refuses_a_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: str
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"worker": ["127.0.0.1:0", "127.0.0.1:1"]}))
    task = ("--job", "worker", "--index", "0", "--cluster", str(cluster))
    assert main(["task", graph, *task, "--out", str(tmp_path / "t")]) == 2
    assert f"{graph} is a graph, whose client is tracer run" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("what", ["a file", "a full folder", "in a file"])
def test_a_trace_folder_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    (tmp_path / "f").write_text("mine")
    out = {"a file": tmp_path / "f", "a full folder": tmp_path, "in a file": tmp_path / "f" / "t"}
    request = ["run", "digits-mlp", "--strategy", "one_device", "--out", str(out[what])]
    assert main(request) == 2
    assert f"--out {out[what]}" in capsys.readouterr().err
    assert (tmp_path / "f").read_text() == "mine"


def test_two_runs_at_once_get_folders_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = Plan("run", workload="digits-mlp", strategy="one_device")
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: claim_folder(plan, LAUNCHER), range(8)))
    assert len(set(folders)) == 8
    with pytest.raises(FolderError, match="not empty"):
        claim_folder(replace(plan, out=str(folders[0])), LAUNCHER)


def test_a_folder_of_a_users_own_model_has_a_name_for_every_file_system() -> None:
    plan = Plan("run", workload="pack.train:make", strategy="one_device")
    assert str(next(default_folders(plan, LAUNCHER))).startswith("pack.train.make-one_device-")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"\xff", "not UTF-8"), (b"[" * 100_000, "too deep"), (b"{", "not JSON"), (None, "Is a dir")],
)
@pytest.mark.parametrize("command", [("run",), ("partition",), ("cluster", "check")])
def test_a_file_that_cannot_be_read_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    content: bytes | None,
    says: str,
) -> None:
    path = tmp_path / "f.json"
    path.mkdir() if content is None else path.write_bytes(content)
    assert main([*command, str(path)]) == 2
    assert says in capsys.readouterr().err


def test_a_cluster_is_shown_with_what_is_odd_about_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.json").write_text('{"worker": ["host1:2222", "127.0.0.1:2222"]}')
    assert main(["cluster", "check", str(tmp_path / "c.json")]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["worker:0", "host1:2222", "worker:1", "127.0.0.1:2222"]
    assert "warning: worker:1 is at 127.0.0.1:2222" in printed.err
