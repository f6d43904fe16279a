from pathlib import Path

import pytest

from tfoperator.launcher import WorkDirectoryError
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory, new_run

RECORD = LaunchRecord("step", "abc", 1, new_run(), name="step-1", uid="u", state="created")


def test_a_record_is_what_was_written_and_one_that_was_cut_off_never_replaces_it(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "work"
    with WorkDirectory(folder) as work:
        assert work.load() is None
        work.save(RECORD)
        work.keep_log_position("2026-01-01T00:00:00Z")
        (folder / "launch.json.partial").write_text('{"comp')
    with WorkDirectory(folder) as again:
        assert again.load() == RECORD
        assert again.log_position() == "2026-01-01T00:00:00Z"
        again.forget()
        assert (again.load(), again.log_position()) == (None, "")


@pytest.mark.parametrize("text", ["", "{", '{"component": 1}', "[]", '{"x":' + "[" * 3000])
def test_a_record_that_can_not_be_read_is_an_error_that_says_what_to_do(tmp_path: Path, text: str) -> None:
    record = tmp_path / "launch.json"
    record.write_text(text)
    with WorkDirectory(tmp_path) as work, pytest.raises(WorkDirectoryError, match="Remove the directory"):
        work.load()
    with pytest.raises(WorkDirectoryError), WorkDirectory(record):
        pass
