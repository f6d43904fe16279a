from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tfoperator.cli.views.replica_rows import ReplicaRow
from tfoperator.cli.views.run.plain import PlainView
from tfoperator.local.run.container_output import LogChunk
from tfoperator.local.run.results import JobResult, ReplicaResult, RunOutcome, RunResult
from tfoperator.notebook.view import CellView, make_cell_view, result_table, rows_table
from tfoperator.report.facts import FinalState


class Cell:
    """IPython's `display`, and the handle that it returns."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, obj: Any, *, display_id: bool) -> Cell:
        assert display_id
        self.update(obj)
        return self

    def update(self, obj: Any) -> None:
        self.shown.append(obj._repr_html_())


def test_outside_of_a_notebook_there_are_plain_lines() -> None:
    assert isinstance(make_cell_view(), PlainView)


def test_lines_go_to_the_cell_without_control_characters(capsys: Any) -> None:
    view = CellView(Cell())
    view.logged([LogChunk("default", "train-worker-0", "tensorflow", 0, "0.log", ("loss \x1b]0;owned\x07 1",))])
    view.stopping(RunOutcome.SUCCEEDED)
    shown = capsys.readouterr().out
    assert shown.startswith("[train-worker-0] loss ")
    assert "\x1b" not in shown


def test_the_table_is_drawn_again_only_when_it_has_changed() -> None:
    cell = Cell()
    view = CellView(cell)
    view.tick()
    assert len(cell.shown) == 1
    view._rows["uid"] = ("train", ReplicaRow("worker-0", "Running", True, 1))
    view.tick()
    view.tick()
    assert len(cell.shown) == 2
    assert "worker-0" in cell.shown[-1]


def test_what_strangers_wrote_is_no_markup() -> None:
    table = rows_table([ReplicaRow("worker-0", "Failed", False, 0, "<script>alert(1)</script>")])
    assert "<script>" not in table
    assert "&lt;script&gt;" in table
    replica = ReplicaResult("<b>w", "pod", FinalState.FAILED, 0, 1, ())
    job = JobResult("default", "<i>x", "Failed", "r", "<img src=x onerror=alert(1)>", (replica,))
    text = result_table(RunResult(RunOutcome.FAILED, 1.0, "/run", (job,), datetime(2026, 1, 31, 12, tzinfo=UTC)))
    assert "<img" not in text
    assert "<i>x" not in text
    assert "exit code" in text
