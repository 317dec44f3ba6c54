"""Library and Summary of runs that failed, of traces without steps, of files that are none."""

from pathlib import Path

import pytest
from dash.development.base_component import Component

from tests.components.reading import found, text
from tests.store.sample_trace import training_step, write_trace
from tracer.model.trace_folder import Flag, TaskRecord
from vizdist.analysis.step_split import split_step
from vizdist.app import PAGES
from vizdist.components.frame import Frame
from vizdist.components.help import help_dialog
from vizdist.components.split_bar import split_bars
from vizdist.components.view import Route, View
from vizdist.i18n import LANGUAGES
from vizdist.pages import library as library_page
from vizdist.pages import summary
from vizdist.store.index import path_id
from vizdist.store.library import Library
from vizdist.store.trace import open_trace

KILLED = "worker:1 was killed by SIGKILL in step 3"


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """A failed run, a trace without steps, an empty file."""
    steps = [span for n in range(3) for span in training_step(n + 1, at=n * 1500)]
    last = steps[-1]._replace(flags=Flag.UNFINISHED)
    tasks = [
        TaskRecord("ps:0", 1, outcome="done"),
        TaskRecord("worker:1", 2, outcome="killed", error="was killed by SIGKILL"),
    ]
    write_trace(
        tmp_path / "failed.trace", [*steps[:-1], last], tasks=tasks, outcome="failed",
        error="worker:1 in step 3: was killed by SIGKILL", strategy="parameter_server_v1",
    )  # fmt: skip
    write_trace(tmp_path / "plain.trace", [one._replace(step=0) for one in training_step(1)])
    (tmp_path / "empty.json").write_text("")
    return Library([tmp_path])


def view(tmp_path: Path, name: str, page: str = "summary") -> View:
    return View(page, path_id(tmp_path / name), "en")


def classes(component: Component) -> str:
    return str(getattr(component, "className", ""))


def test_a_row_says_the_root_cause_first_and_counts_what_followed(library: Library) -> None:
    rows = found(library_page.layout(library, View("library", "", "en")), "run")
    [row] = [row for row in rows if "failed" in text(row)]
    cause, counts = found(row, "chip")
    assert (text(cause), "error" in classes(cause)) == (KILLED, True)
    assert (text(counts), "error" in classes(counts)) == ("1 span unfinished", False)


def test_a_row_of_a_file_that_is_none_says_why(library: Library) -> None:
    rows = found(library_page.layout(library, View("library", "", "en")), "run")
    assert any(
        "Cannot be opened" in text(row) and "empty.json is empty" in text(row) for row in rows
    )


def test_a_failed_run_opens_with_what_ended_it_and_leads_there(
    library: Library, tmp_path: Path
) -> None:
    page = summary.layout(library, view(tmp_path, "failed.trace"))
    [cause] = found(page, "cause")
    assert text(cause) == f"{KILLED}."
    assert "step=3&sel=span:" in cause.children.href
    hints = text(found(page, "hints"))
    assert hints.startswith("1 span never ended, on ps:0.")


def test_a_trace_without_steps_is_told_by_its_names(library: Library, tmp_path: Path) -> None:
    page = summary.layout(library, view(tmp_path, "plain.trace"))
    assert "This trace holds 8 spans and no training step." in text(found(page, "head"))
    [table] = found(page, "names")
    assert text(table).startswith("NameTaskSpansTotalBeside the largeststep 1worker:0")
    assert not found(page, "chart")


def test_an_address_that_leads_nowhere_says_why(library: Library, tmp_path: Path) -> None:
    def said(path: str) -> str:
        body, *_ = Frame(library, PAGES).page(Route(path=path, lang="en"))
        return text(body)

    assert "empty.json is empty" in said(f"/t/{path_id(tmp_path / 'empty.json')}/summary")
    assert "No run with this id" in said("/t/0123456789abcdef/summary")
    assert "No such page" in said("/nothing")
    assert "No such page" in said(f"/t/{path_id(tmp_path / 'failed.trace')}/nothing")


@pytest.mark.parametrize(
    ("page", "has", "has_not"),
    [("library", "Find a run", "Next"), ("graph", "Move the picture", "Earlier, later"),
     ("timeline", "Earlier, later", "Find a run"), ("summary", "Go to the graph", "Nearer")],
)  # fmt: skip
def test_each_page_lists_its_own_keys(page: str, has: str, has_not: str) -> None:
    keys = text(help_dialog(View(page, "" if page == "library" else "0" * 16, "en")))
    assert has in keys
    assert has_not not in keys


def test_the_numbers_of_several_tasks_stand_under_their_class(
    library: Library, tmp_path: Path
) -> None:
    trace = open_trace(tmp_path / "failed.trace")
    splits = split_step(trace, trace.step(1))
    bars = split_bars(splits, "en")
    groups = [text(group) for group in found(bars, "split-table")[0].children]
    assert groups[0] == "worker:0ps:0"
    assert groups[1].startswith("compute")
    used = {name for split in splits for name, ns in split.parts.items() if ns}
    assert len(groups) == 1 + len(used)


def test_why_a_file_cannot_be_opened_is_told_in_both_languages(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "nothing.json").write_text('{"traceEvents": [{"ph": "Q", "name": "x"}]}')
    library = Library([tmp_path])
    english, chinese = (
        text(library_page.layout(library, View("library", "", lang))) for lang in LANGUAGES
    )
    assert "empty.json is empty." in english
    assert "empty.json 是空文件。" in chinese
    assert "broken.json 不是这里已知的格式" in chinese
    assert "Nothing in nothing.json could be read" in english
    assert "nothing.json 中没有可作为 trace 读取的内容" in chinese
