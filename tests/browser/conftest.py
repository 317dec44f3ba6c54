"""One server and one Chromium for all browser tests; every test gets a tab of its own."""

import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.store.sample_trace import training_step, write_trace
from vizdist.app import create_app
from vizdist.cli import listen
from vizdist.store.index import path_id
from vizdist.store.library import Library

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Path(__file__).parent / "axe.min.js"
_ASKED = itertools.count()

expect.set_options(timeout=20_000)  # ms; the machine is shared, and a bound is not a budget


@dataclass(frozen=True)
class Dashboard:
    """A served library: `url` ends with a slash, `run` is the id of its training run."""

    url: str
    run: str


def chromium_path() -> str | None:
    """What this machine has; None: the one that playwright installed."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="package")
def chromium() -> Iterator[BrowserContext]:
    """One context for all tests, so that scripts are fetched and compiled once."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        yield browser.new_context()
        browser.close()


def serving(library: Library, prefix: str = "/") -> Iterator[str]:
    listener = listen("127.0.0.1", 0)
    app = create_app(library, url_prefix=prefix)
    config = uvicorn.Config(
        app, lifespan="off", log_level="warning", timeout_graceful_shutdown=1
    )  # fmt: skip
    server = uvicorn.Server(config)
    # a daemon, as a test that fails within its `for` leaves this generator where it stands
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@pytest.fixture(scope="package")
def serve() -> Iterator[Callable[[Path], Dashboard]]:
    """`serve(folder)`: pages of a run, all from one server, so that scripts are compiled once."""
    library = Library([])
    for url in serving(library):
        yield partial(_shown, library, url)


def _shown(library: Library, url: str, folder: Path) -> Dashboard:
    return Dashboard(url, library.add(folder))


@pytest.fixture(scope="package")
def training_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty steps of one worker and one ps, every 1.5 µs one."""
    steps = [span for n in range(20) for span in training_step(n + 1, at=n * 1500)]
    folder = tmp_path_factory.mktemp("runs") / "digits.trace"
    return write_trace(
        folder, steps, workload="digits-mlp", strategy="parameter_server_v1", steps=20
    )


@pytest.fixture(scope="package")
def dashboard(training_run: Path) -> Iterator[Dashboard]:
    for url in serving(Library([training_run])):
        yield Dashboard(url, path_id(training_run))


@pytest.fixture
def tab(chromium: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Opens pages; at the end no script failed, nothing left this host, nothing is remembered."""
    faults: list[str] = []

    def open_tab(url: str, width: int = 1440, height: int = 900, is_lost: bool = False) -> Page:
        page = chromium.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: _note_foreign(r.url, faults))
        page.goto(url)
        page.wait_for_selector("main > *", timeout=20_000)
        return page if is_lost else listening(page)  # what is not there has no name either

    yield open_tab
    for page in chromium.pages:
        page.evaluate("localStorage.clear()")
        page.close()
    assert not faults


def _note_foreign(url: str, faults: list[str]) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:", "blob:")):
        faults.append(f"asked {url}")


def listening(page: Page) -> Page:
    """The page once its shell hears keys and clicks: it names the tab as it begins to listen."""
    page.wait_for_function("() => document.title !== 'vizdist'")
    return page


def reload(page: Page) -> None:
    page.reload()
    listening(page)


def told(page: Page, holds: str = "s => s.ready") -> dict[str, Any]:
    """What the canvas says of itself once `holds`, a function in JavaScript, is true of it.

    It hears of a selection, a step or a stage on a way of its own: whoever reads it right after
    such a change may read what was before.
    """
    script = f"() => {{ const s = window.__vizdist?.state(); return s && ({holds})(s) && s; }}"
    found: dict[str, Any] = page.wait_for_function(script).json_value()
    return found


def still(page: Page, place: str) -> tuple[float, float]:
    """A place on the page, an expression in JavaScript, once two frames find it alike."""
    script = f"""(asked) => {{
      const now = {place}, last = window.placeSeen;
      window.placeSeen = {{ asked, at: String(now) }};
      return now && last?.asked === asked && last.at === String(now) && now;
    }}"""
    x, y = page.wait_for_function(script, arg=next(_ASKED)).json_value()
    return x, y


def painted(page: Page) -> None:
    """What was asked for before is on the canvas: it paints in the next frame."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def axe_faults(page: Page) -> list[str]:
    """What axe-core finds, a line a rule and element."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    return [
        f"{rule['id']}: {node['html'][:120]} {node.get('failureSummary', '')[:200]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def overflow(page: Page) -> list[str]:
    """Text that is cut or pokes out of the window sideways."""
    return list(
        page.evaluate(
            """() => {
              const found = [];
              if (document.documentElement.scrollWidth > innerWidth) found.push("page scrolls");
              for (const element of document.querySelectorAll("header *, nav *, main *")) {
                const box = element.getBoundingClientRect();
                if (box.width && box.right > innerWidth + 1 && !element.closest("[data-scrolls]"))
                  found.push(`${element.className}: ${element.textContent.slice(0, 40)}`);
              }
              return found;
            }"""
        )
    )
