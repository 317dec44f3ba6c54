"""What is installed from a wheel, far from any checkout, is whole."""

import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a fresh environment that holds the wheel; dependencies are borrowed."""
    place = tmp_path_factory.mktemp("wheel")
    pip = ["-m", "pip", "--quiet"]
    build = [sys.executable, *pip, "wheel", "--no-deps", "-w", str(place), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = place.glob("vizdist-*.whl")
    home = place / "venv"
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    install = [python, *pip, "install", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, timeout=300)
    (site,) = home.glob("lib/python*/site-packages")
    # a plain path: .pth files that lie there, such as a checkout's, are not followed
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def run(command: Path, *arguments: str, folder: Path) -> str:
    found = subprocess.run(
        [command, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture
def served(bin_folder: Path, tmp_path: Path) -> Iterator[str]:
    vizdist = str(bin_folder / "vizdist")
    command = [vizdist, "serve", str(tmp_path), "--port", "0", "--no-browser"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().removeprefix("vizdist on ").strip()
        server.terminate()
        server.wait(20)


def get(url: str, accept: str = "*/*") -> bytes:
    asked = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(asked, timeout=20) as answer:
        body: bytes = answer.read()
        return body


def test_the_package_is_the_wheels_own(bin_folder: Path, tmp_path: Path) -> None:
    say_where = "import tracer, vizdist; print(tracer.__file__, vizdist.__file__)"
    where = run(bin_folder / "python", "-c", say_where, folder=tmp_path)
    assert str(ROOT) not in where
    assert where.count(str(bin_folder.parent)) == 2


def test_every_asset_comes_by_http(served: str) -> None:
    page = get(served, "text/html").decode()
    folder = re.search(r'src="/?(assets/\w+)/boot\.js"', page)
    assert folder is not None
    assets = ROOT / "assets"
    files = [path for path in assets.rglob("*") if path.is_file()]
    assert len(files) > 30
    for path in files:
        name = path.relative_to(assets).as_posix()
        assert get(f"{served}{folder[1]}/{name}") == path.read_bytes()


def test_both_commands_know_what_they_bring(bin_folder: Path, tmp_path: Path) -> None:
    assert "digits-mlp" in run(bin_folder / "tracer", "list", folder=tmp_path)
    assert "session.run" in run(bin_folder / "tracer", "schema", folder=tmp_path)
    assert "serve" in run(bin_folder / "vizdist", "--help", folder=tmp_path)
