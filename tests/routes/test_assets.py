"""Files of the browser: named by version, kept for good, asked for before they are needed."""

from pathlib import Path

import pytest

from vizdist.routes.assets import assets_folder, modules_of, style_of, version_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page.mjs").write_text('import { a } from "./one.mjs";\nimport "./two.mjs";\n')
    (tmp_path / "one.mjs").write_text('import {\n  b,\n} from "./two.mjs";\n')
    (tmp_path / "two.mjs").write_text('export const b = "./three.mjs";\n')
    return tmp_path


def test_a_page_asks_for_all_that_its_script_imports_once(folder: Path) -> None:
    assert modules_of(folder, ["page.mjs"]) == ["page.mjs", "one.mjs", "two.mjs"]


def test_a_page_without_a_script_asks_for_none(folder: Path) -> None:
    assert modules_of(folder, ["reading.mjs"]) == []


def test_any_byte_changes_the_version(folder: Path) -> None:
    before = version_of(folder)
    assert before == version_of(folder)
    (folder / "two.mjs").write_text('export const b = "./4.mjs";\n')
    assert version_of(folder) != before


@pytest.mark.parametrize("page", ["graph", "timeline"])
def test_every_import_of_our_scripts_is_a_file(page: str) -> None:
    names = modules_of(assets_folder(), [f"{page}.mjs"])
    assert len(names) > 5
    assert all((assets_folder() / name).is_file() for name in names)


def test_style_sheets_come_as_one_with_their_pictures(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text('i { mask: url("icons/i.svg"); }\n')
    (tmp_path / "b.css").write_text("b { fill: url(#hatch); }\n")
    (tmp_path / "icons").mkdir()
    (tmp_path / "icons" / "i.svg").write_text("<svg/>")
    assert style_of(tmp_path, ["b", "a"]) == (
        'b { fill: url(#hatch); }\n\ni { mask: url("data:image/svg+xml;base64,PHN2Zy8+"); }\n'
    )
