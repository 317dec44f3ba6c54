"""The vizdist command: what it prints, what it refuses, how it ends."""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.store.sample_trace import training_step, write_trace
from vizdist.cli import _parser, main

SERVER_FLAGS = ["--host", "--no-browser", "--port", "--token", "--url-prefix"]
FLAGS = {
    "serve": SERVER_FLAGS,
    "report": ["--json", "--step"],
    "export": ["--format", "--redact", "--steps"],
    "import": ["--between", "--time-unit", "-o"],
    "demo": SERVER_FLAGS,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    steps = [span for n in range(3) for span in training_step(n + 1, at=n * 1500)]
    return write_trace(tmp_path / "digits.trace", steps, workload="digits-mlp")


def test_the_flags_are_these() -> None:
    """They are a promise to scripts; a new one gets its line here, in README and in the help."""
    [commands] = [a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction)]
    told = {
        name: sorted(
            flag for a in command._actions for flag in a.option_strings[:1] if flag != "-h"
        )
        for name, command in commands.choices.items()
    }
    assert told == FLAGS


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["sreve"], "Did you mean serve?"),
        (["serve", "--prot", "1"], "Did you mean --port?"),
        (["serve", "--port", "x"], "invalid int value"),
        (["serve", "--port", "70000"], "outside 0 to 65535"),
        (["serve", "--host", "0.0.0.0"], "Set VIZDIST_TOKEN"),
        (["serve", "--host", "0.0.0.0", "--token", "short"], "has 5 letters"),
        (["serve", "--token", "letters; and=signs&more"], "of A-Z a-z 0-9 _ and -"),
        (["serve", "--url-prefix", "/a/../b"], "is no path"),
        (["export", "x.trace", "y", "--format", "perfeto"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_request_exits_with_2_and_a_hint(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert hint in printed.err


def test_a_missing_trace_names_the_nearest(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run.with_name("digit.trace"))]) == 2
    assert f"Did you mean {run}?" in capsys.readouterr().err


def test_a_file_that_is_no_trace_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.json").write_text("hello")
    assert main(["serve", "--no-browser", str(tmp_path / "x.json")]) == 2
    assert "x.json" in capsys.readouterr().err


def test_what_a_foreign_name_holds_is_not_obeyed_by_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "\x1b[31mred\x07.json"
    odd.write_text("hello")
    assert main(["report", str(odd)]) == 2
    told = capsys.readouterr().err
    assert "\\x1b[31mred\\x07.json" in told
    assert all(line.isprintable() for line in told.split("\n"))


def test_a_port_in_use_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", str(run), "--port", str(port), "--no-browser"]) == 2
    assert f"port {port} on 127.0.0.1" in capsys.readouterr().err


def test_report_says_the_same_in_words_and_in_json(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run)]) == 0
    assert "3 steps were recorded." in capsys.readouterr().out
    assert main(["report", str(run), "--step", "2", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


@contextmanager
def serving(
    run: Path, *flags: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and the line it printed; it does not outlive a test that fails."""
    command = [sys.executable, "-m", "vizdist", "serve", str(run), "--port", "0", "--no-browser"]
    told = os.environ | {"PYTHONUNBUFFERED": "1"} | environment
    with subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True, env=told) as child:
        assert child.stdout is not None
        try:
            yield child, child.stdout.readline()
        finally:
            child.kill()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_serve_prints_one_line_and_ends_wholly(run: Path, ending: signal.Signals) -> None:
    with serving(run) as (server, line):
        assert line.startswith("vizdist on http://127.0.0.1:")
        assert line.endswith("/summary\n")
        url = line.removeprefix("vizdist on ").strip()
        page = urllib.request.Request(url, headers={"Accept": "text/html"})
        with urllib.request.urlopen(page, timeout=20) as answer:
            assert answer.status == 200
        server.send_signal(ending)
        assert server.wait(20) in (0, -ending)
        assert server.stdout is not None
        assert server.stdout.read() == ""
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=2)


def test_other_machines_are_let_in_by_the_printed_address_alone(run: Path) -> None:
    token = "a-token-of-this-test"
    with serving(run, "--host", "0.0.0.0", VIZDIST_TOKEN=token) as (server, line):
        url, _, shown = line.removeprefix("vizdist on ").strip().partition("?")
        assert shown == f"token={token}"
        here = url.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(here, timeout=20)
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/html"}
        asked = urllib.request.Request(here, headers=headers)
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert answer.status == 200
        server.terminate()
        server.wait(20)
