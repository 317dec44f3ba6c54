"""Charts: same tokens as the style sheet, what is drawn is what was measured."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.sample_trace import training_step, write_trace
from vizdist.analysis.step_split import CLASSES, TaskSplit
from vizdist.analysis.steps import MAX_COLUMNS, shown_step, splits_of, steps_around
from vizdist.figures.batch_sizes import batch_sizes_figure
from vizdist.figures.loss import loss_figure
from vizdist.figures.spark import Scale, dots, line, scale_of, thin
from vizdist.figures.step_columns import columns_figure
from vizdist.figures.theme import PARTS, TOKENS, Theme, round_ticks
from vizdist.routes.assets import assets_folder
from vizdist.store.trace import StepInfo, Trace, open_trace

WORDS = {part: part for part in PARTS} | {"step": "Step {step}", "steps": "Step", "loss": "Loss"}


def split(number: int, total: int) -> TaskSplit:
    info = StepInfo(number, 0, number, 0, total, "worker:0", 0, True)
    return TaskSplit("worker:0", info, dict.fromkeys(CLASSES, 0) | {"compute": total})


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    steps = [span for n in range(200) for span in training_step(n + 1, at=n * 1500)]
    return open_trace(write_trace(tmp_path_factory.mktemp("runs") / "long.trace", steps))


@pytest.mark.parametrize("theme", TOKENS)
def test_plotly_and_the_style_sheet_share_their_tokens(theme: Theme) -> None:
    sheet = (assets_folder() / "tokens.css").read_text(encoding="utf-8")
    blocks = re.findall(r'^:root(?:\[data-theme="(\w+)"\])? \{(.*?)\}', sheet, re.S | re.M)
    told: dict[str, str] = {}
    for name, body in blocks:
        if name in ("", theme):
            told |= dict(re.findall(r"--([a-z0-9-]+): (#[0-9A-F]{6});", body))
    known = {name: told[name] for name in TOKENS[theme] if name != "outline"}
    assert known == {name: hue for name, hue in TOKENS[theme].items() if name != "outline"}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", TOKENS)
def test_words_and_outlines_stand_out_from_their_ground(theme: Theme) -> None:
    tokens = TOKENS[theme]
    least = 9 if theme == "projector" else 4.5
    for text, ground in itertools.product(("ink", "ink2", "ink3"), ("bg", "panel", "sunk")):
        assert contrast(tokens[text], tokens[ground]) >= least, (text, ground)
    outlines = [name for name in tokens if name.endswith("-s")]
    assert all(contrast(tokens[name], tokens["panel"]) >= 5.4 for name in outlines)
    assert contrast(tokens["line2"], tokens["panel"]) >= 3


def test_every_class_of_time_has_a_look() -> None:
    assert set(PARTS) == set(CLASSES)


def test_columns_stack_to_the_length_of_their_step() -> None:
    figure = columns_figure([split(1, 4_000_000), split(2, 6_000_000)], 2, "light", WORDS)
    assert list(figure.data[0].y) == [4.0, 6.0]
    assert figure.layout.shapes[0].x0 == pytest.approx(1.48)


def test_a_step_that_would_flatten_the_others_is_named_instead() -> None:
    usual = [split(number, 1_000_000) for number in range(2, 30)]
    figure = columns_figure([split(1, 90_000_000), *usual], 5, "light", WORDS)
    assert figure.layout.yaxis.range[1] < 4
    assert [note.text for note in figure.layout.annotations] == ["Step 1  90.0 ms"]


def test_losses_name_their_ends_and_the_current_step() -> None:
    losses = [(1, 2.3), (2, 1.9), (3, 1.5)]
    figure = loss_figure({"worker:0": losses}, 2, "dark", WORDS)
    assert [note.text for note in figure.layout.annotations] == ["1.500", "1.900", "2.300"]
    assert list(figure.layout.xaxis.tickvals) == [1, 2, 3]


@pytest.mark.parametrize("theme", TOKENS)
def test_numbers_on_a_loss_line_neither_touch_nor_leave_the_chart(theme: Theme) -> None:
    losses = [(n, 2.309 - 0.01 * n) for n in range(1, 41)]
    close = loss_figure({"worker:0": losses}, 3, theme, WORDS).layout
    assert [note.text for note in close.annotations] == ["1.909", "2.279"]
    far = loss_figure({"worker:0": losses}, 30, theme, WORDS).layout
    assert [note.text for note in far.annotations] == ["1.909", "2.009", "2.299"]
    assert {note.xanchor for note in far.annotations} == {"left"}, "right of a point is free"
    highest = far.annotations[-1]
    assert far.margin.t >= highest.yshift + highest.font.size


def test_ends_that_lie_close_are_lines_of_one_text() -> None:
    ends = {"worker:0": 0.500, "worker:1": 1.900, "worker:2": 0.502}
    lines = {task: [(1, 2.0), (30, end)] for task, end in ends.items()}
    figure = loss_figure(lines, None, "light", WORDS)
    names = [note.text for note in figure.layout.annotations if "worker" in note.text]
    assert names == ["worker:1  1.900", "worker:2  0.502<br>worker:0  0.500"]
    assert figure.layout.margin.r > 8 * len("worker:0 0.5")


def test_a_noisy_loss_is_its_mean_before_its_points() -> None:
    points = [(n, 1.0 + n % 2) for n in range(1, 1001)]
    raw, mean, *_ = loss_figure({"w": points}, None, "light", WORDS).data
    assert list(raw.y) == [loss for _, loss in points]
    assert (mean.y[0], mean.y[-1]) == (points[0][1], points[-1][1])
    assert all(1.45 < loss < 1.55 for loss in mean.y[40:-40])


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_ticks_are_few_and_hold_both_ends(first: int, length: int) -> None:
    ticks = round_ticks(first, first + length)
    assert (ticks[0], ticks[-1]) == (first, first + length)
    assert sorted(set(ticks)) == ticks
    assert len(ticks) <= 8


def test_remarks_beside_columns_never_meet() -> None:
    slow = {1: 90, 20: 80, 25: 70, 50: 60}
    columns = [split(n, slow.get(n, 1) * 1_000_000) for n in range(1, 51)]
    figure = columns_figure(columns, 5, "light", WORDS)
    named = [note.text.split("  ")[0] for note in figure.layout.annotations]
    assert named == ["Step 1", "Step 25"]
    cuts = [shape for shape in figure.layout.shapes if shape.type == "line"]
    assert len(cuts) == 4
    for note in figure.layout.annotations:
        assert (note.yref, note.y, note.yanchor) == ("paper", 1, "bottom"), "it would hide columns"
        assert figure.layout.margin.t >= note.font.size


def test_few_columns_are_no_wall() -> None:
    left, right = columns_figure([split(1, 1_000_000)], 1, "light", WORDS).layout.xaxis.range
    assert right - left > 10


def test_a_hostile_task_name_is_escaped_for_plotly() -> None:
    lines = {"<b>x</b>": [(1, 2.0)], "w": [(1, 1.0)]}
    figure = loss_figure(lines, None, "light", WORDS)
    assert "&lt;b&gt;" in figure.data[0].meta
    assert all("<b>" not in note.text for note in figure.layout.annotations)


def test_pictures_of_a_row_stay_small_for_long_runs() -> None:
    assert len(line([float(n % 7) for n in range(100_000)])) < 20_000
    assert len(dots([1.0] * 100_000, Scale(0, 2.0))) < 2_000
    assert thin([(0.0, 0.0), (1.0, 1.0)], 10) == [(0.0, 0.0), (1.0, 1.0)]


def test_runs_far_apart_share_a_scale_on_which_all_can_be_told_apart() -> None:
    near, far = scale_of([1.0, 2.0]), scale_of([1.0, 2.0, 5000.0])
    assert near.share(2.0) - near.share(1.0) == pytest.approx(1 / 6)
    assert far.share(2.0) - far.share(1.0) > 0.06
    assert (far.share(0.01), far.share(1e9)) == (0, 1)
    assert scale_of([]).share(1.0) == 0


def test_the_wanted_step_is_shown_or_a_typical_one(trace: Trace) -> None:
    assert shown_step(trace, 7) == 7
    assert shown_step(trace, 9999) == 1
    assert [part.step.number for part in splits_of(trace, 7)] == [7]


@pytest.mark.parametrize("number", [1, 100, 200])
def test_a_long_run_shows_the_steps_around_the_current_one(trace: Trace, number: int) -> None:
    row = steps_around(trace, number)
    numbers = [part.step.number for part in row.splits]
    assert len(numbers) == MAX_COLUMNS
    assert number in numbers
    assert row.count == 200


@pytest.mark.parametrize("rows", [{}, {"worker:0": {}}])
def test_batch_sizes_of_a_run_that_took_no_batch_yet_are_an_empty_chart(
    rows: dict[str, dict[int, int]],
) -> None:
    words = {"step": "Step {step}", "examples": "examples"}
    assert not batch_sizes_figure(rows, 1, "light", words).data
