from __future__ import annotations

from pathlib import Path

import pytest

from tfoperator.launcher import WorkDirectoryError
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory, new_run

RECORD = LaunchRecord("step", "abc", 1, new_run(), name="step-1", uid="u", state="created")


def test_a_record_is_what_was_written(tmp_path: Path) -> None:
    with WorkDirectory(tmp_path / "new" / "work") as work:
        assert work.load() is None
        work.save(RECORD)
        work.keep_log_position("2026-01-01T00:00:00Z")
    with WorkDirectory(tmp_path / "new" / "work") as again:
        assert again.load() == RECORD
        assert again.log_position() == "2026-01-01T00:00:00Z"
        again.forget()
        assert (again.load(), again.log_position()) == (None, "")


def test_a_record_that_was_cut_off_never_replaces_one(tmp_path: Path) -> None:
    with WorkDirectory(tmp_path) as work:
        work.save(RECORD)
        (tmp_path / "launch.json.partial").write_text('{"comp')
        assert work.load() == RECORD


@pytest.mark.parametrize("text", ["", "{", '{"component": 1}', "[]", '{"x":' + "[" * 3000])
def test_a_record_that_can_not_be_read_is_an_error_that_says_what_to_do(tmp_path: Path, text: str) -> None:
    (tmp_path / "launch.json").write_text(text)
    with WorkDirectory(tmp_path) as work, pytest.raises(WorkDirectoryError, match="Remove the directory"):
        work.load()


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkDirectoryError), WorkDirectory(tmp_path / "file"):
        pass
