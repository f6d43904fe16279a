import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tfoperator.local.daemon.state_directory import DaemonState, StateDirectory, default_state_directory
from tfoperator.local.identity import ProcessIdentity, identify


def test_the_state_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_state_directory() == tmp_path / "state" / "tfoperator" / "local"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_state_directory() == tmp_path / ".local" / "state" / "tfoperator" / "local"


def test_what_is_written_is_read_back_and_only_by_its_owner(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "s")
    state.create()
    mine = identify(os.getpid())
    assert mine is not None
    written = DaemonState(mine, "https://127.0.0.1:1", datetime(2026, 1, 1, tzinfo=UTC), "/work")
    state.write(written)
    assert state.read() == written
    assert written.alive
    assert not msgspec.structs.replace(written, process=ProcessIdentity(os.getpid(), "long ago")).alive
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "s" / "state.json").stat().st_mode) == 0o600
    state.clear()
    assert state.read() is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": 1}'])
def test_a_broken_state_file_is_no_state(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    assert StateDirectory(tmp_path).read() is None
