"""Small is enforced: sizes of modules and functions, and words that name no job."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = sorted(p for room in ("tracer", "vizdist", "tests") for p in (ROOT / room).rglob("*.py"))
SCRIPTS = sorted((ROOT / "assets").rglob("*.mjs"))
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_python_modules_have_at_most_400_lines() -> None:
    long = {relative(p): n for p in PYTHON if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_scripts_have_at_most_500_lines() -> None:
    long = {relative(p): n for p in SCRIPTS if (n := len(p.read_text().splitlines())) > 500}
    assert not long


def test_functions_have_at_most_60_lines() -> None:
    long = [
        f"{relative(path)}:{node.lineno} {node.name}"
        for path in PYTHON
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > 60
    ]
    assert not long


def test_lines_have_at_most_100_columns() -> None:
    wide = [
        f"{relative(path)}:{number}"
        for path in (*PYTHON, *SCRIPTS)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 100
    ]
    assert not wide


def test_no_file_is_named_after_nothing() -> None:
    assert not [relative(p) for p in (*PYTHON, *SCRIPTS) if p.stem in VAGUE]


def test_the_project_speaks_of_itself_alone() -> None:
    foreign = re.compile(r"\.\./(shared|\.library)|(?<![\w.])/(work|farm)/")
    mine = Path(__file__).resolve()
    files = [*PYTHON, *SCRIPTS, ROOT / "README.md", ROOT / "Makefile"]
    assert not [relative(p) for p in files if p != mine and foreign.search(p.read_text())]


def test_who_starts_a_cluster_or_a_browser_says_so_in_its_own_file() -> None:
    """There `make test` looks for it: a mark that comes from elsewhere would leave it out."""
    marks = re.compile(r"mark\.(cluster|browser)")
    tests = [p for p in PYTHON if p.is_relative_to(ROOT / "tests") and marks.search(p.read_text())]
    assert len(tests) > 20
    assert all(path.name.startswith("test_") for path in tests)


@pytest.mark.parametrize("heavy", ["torch", "grpc", "opentelemetry.sdk"])
def test_the_dashboard_starts_without(heavy: str) -> None:
    code = f"import sys, vizdist.app; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0
