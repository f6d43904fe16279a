from __future__ import annotations

import json
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.local.pods import python
from tfoperator.cli.__main__ import main
from tfoperator.local.identity import ProcessIdentity, identify
from tfoperator.local.state import DaemonState, StateDirectory


def crashed(folder: Path) -> StateDirectory:
    """The files of a control plane that is no more."""
    state = StateDirectory(folder)
    state.create()
    state.kubeconfig.write_text("secret")
    state.write(DaemonState(ProcessIdentity(1, "long ago"), "https://127.0.0.1:1", datetime.now(UTC), "/work"))
    return state


def test_without_a_control_plane_status_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "status", "--state-dir", str(tmp_path / "none")]) == 1
    assert "tfoperator local up" in capsys.readouterr().out
    assert main(["local", "status", "-o", "json", "--state-dir", str(tmp_path / "none")]) == 1
    assert json.loads(capsys.readouterr().out) == {"running": False, "stopping": False, "crashed": False, "jobs": []}


def test_a_crash_is_noticed_and_down_cleans_up_after_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = crashed(tmp_path)
    assert main(["local", "status", "--state-dir", str(tmp_path)]) == 1
    assert "has crashed" in capsys.readouterr().out
    process = subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)
    try:
        identity = identify(process.pid)
        assert identity is not None
        records = state.run / "processes"
        records.mkdir(parents=True)
        record = {"pid": identity.pid, "started": identity.started, "container": "ns/p/tensorflow"}
        (records / f"{process.pid}.json").write_text(json.dumps(record))
        assert main(["local", "down", "--state-dir", str(tmp_path)]) == 0
        assert process.wait(10) == -9
    finally:
        process.kill()
        process.wait()
    said = capsys.readouterr().err
    assert "had crashed" in said
    assert "killed ns/p/tensorflow" in said
    assert state.read() is None
    assert not state.kubeconfig.exists()


def test_down_without_a_control_plane_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "down", "--state-dir", str(tmp_path)]) == 0
    assert "no control plane was up" in capsys.readouterr().err


def test_local_without_a_command_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local"]) == 2
    said = capsys.readouterr()
    assert "status" in said.out + said.err


def test_a_port_that_can_not_be_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "up", "--port", "65536", "--state-dir", str(tmp_path)]) == 2
    assert "65535" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["local", "up", "--port", str(port), "--state-dir", str(tmp_path)]) == 1
    assert f"Address already in use: '127.0.0.1:{port}'" in capsys.readouterr().err
