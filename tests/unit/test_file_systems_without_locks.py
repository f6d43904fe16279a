"""A file system without locks is named as such, and not as a lock that another program holds."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from tfoperator.cli.run_directory import logging_to
from tfoperator.cli.terminal.errors import CliError
from tfoperator.launcher import WorkDirectoryError
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.local.gpus.manager import DeviceLocks
from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.sqlite_file import SQLiteFile


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
def test_a_working_directory_a_runs_directory_and_a_store_without_locks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkDirectoryError, match=f"{tmp_path}: No locks available"):
        WorkDirectory(tmp_path).__enter__()
    with pytest.raises(CliError, match="No locks available"), logging_to(tmp_path / "run.log"):
        pass
    with pytest.raises(StoreError, match="No locks available"):
        SQLiteFile(tmp_path / "metadata.db", read_only=False)


@pytest.mark.usefixtures("no_locks")
def test_devices_without_locks_are_used_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    locks = DeviceLocks(tmp_path / "locks")
    assert locks.try_all(["a"]) == {"a"}
    assert "No locks available" in caplog.text
