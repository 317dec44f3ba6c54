"""The pure parts of all scripts, run where node is."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = sorted(path.name for path in HERE.glob("*.test.mjs"))


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("script", SCRIPTS)
def test_pure_parts_of_the_scripts(script: str) -> None:
    run = subprocess.run(
        ["node", "--test", script], cwd=HERE, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
