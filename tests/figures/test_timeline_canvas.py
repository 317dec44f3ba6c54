"""The pure parts of the timeline's scripts, run where node is."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent / "js"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("name", ["timeline_model", "timeline_data", "timeline_bars"])
def test_pure_parts_of_the_timeline_scripts(name: str) -> None:
    run = subprocess.run(
        ["node", "--test", f"{name}.test.mjs"],
        cwd=SCRIPTS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
