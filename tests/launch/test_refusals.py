"""Requests that cannot be served: exit 2, the next step, and nothing started."""

from pathlib import Path

import pytest

from tracer.cli import main


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("digits-mpl", "--strategy", "one_device"), "did you mean 'digits-mlp'"),
        (("digits-mlp", "--strategy", "one_devic"), "did you mean one_device"),
        (("digits-mlp", "--strategy", "one_device", "--setps", "3"), "did you mean --steps"),
        (("digits-mlp", "--strategy", "one_device", "--ps", "2"), "leave --ps out"),
        (("digits-mlp", "--strategy", "one_device", "--devices", "tpu"), "cpu:N"),
        (("digits-mlp",), "say --strategy"),
        (("missing.json",), "missing.json"),
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
