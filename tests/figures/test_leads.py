"""What leads to a bar of the critical path is not drawn as the bar itself."""

from pathlib import Path

from tests.analysis.test_critical_path import node, opened
from vizdist.figures.findings import step_findings


def test_what_lies_before_a_span_is_not_drawn_as_its_bar(tmp_path: Path) -> None:
    """`first` was ready at 10; `second` was ready with its end and ran 3 ns after it."""
    ops = node("first", 10, 20, 60, 3), node("second", 60, 63, 100, 4)
    trace = opened(tmp_path, *ops)
    path = step_findings(trace, trace.step(1))["path"]
    columns = (path[name] for name in ("start", "end", "part", "lead"))
    assert [*zip(*columns, strict=True)] == [
        (0, 10, "other", True),
        (10, 20, "queueing", False),
        (20, 60, "compute", False),
        (60, 63, "queueing", False),
        (63, 100, "compute", False),
    ]
