import fcntl
import json
import os
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run
from tests.unit.local.node.pods import python
from tfoperator.local.daemon.state_directory import RUNS_ALREADY, DaemonState, StateDirectory
from tfoperator.local.identity import ProcessIdentity, identify


def crashed(folder: Path) -> StateDirectory:
    """The files of a control plane that is no more."""
    state = StateDirectory(folder)
    state.create()
    state.kubeconfig.write_text("secret")
    state.write(DaemonState(ProcessIdentity(1, "long ago"), "https://127.0.0.1:1", datetime.now(UTC), "/work"))
    return state


def volumes_in(state: StateDirectory) -> list[str]:
    """The files in the volumes of a control plane."""
    root = state.run / "volumes"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def leave_volumes(state: StateDirectory) -> None:
    """Create the files that a killed control plane leaves: of an emptyDir, of a Secret and of a claim."""
    for name in ("pods/uid/scratch/big", "objects/hash/password", "claims/default/data/weights"):
        file = state.run / "volumes" / name
        file.parent.mkdir(parents=True)
        file.touch()
    assert len(volumes_in(state)) == 3


def test_without_a_control_plane_it_is_said_how_to_start_one(tmp_path: Path, run: Run) -> None:
    where = ("--state-dir", str(tmp_path / "none"))
    assert "tfoperator local up" in run("local", "status", *where, code=1).out
    result = run("local", "status", "-o", "json", *where, code=1)
    assert json.loads(result.out) == {"running": False, "stopping": False, "crashed": False, "jobs": []}
    assert "no control plane was running" in run("local", "down", *where, code=0).err, "which is no mistake"
    assert "65535" in run("local", "up", "--port", "65536", *where, code=2).err
    bare = run("local", code=2)
    assert "status" in bare.out + bare.err


def test_a_crash_is_noticed_and_down_cleans_up_after_it(tmp_path: Path, run: Run) -> None:
    state = crashed(tmp_path)
    leave_volumes(state)
    assert "has crashed" in run("local", "status", "--state-dir", str(tmp_path), code=1).out
    process = subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)
    try:
        identity = identify(process.pid)
        assert identity is not None
        records = state.run / "processes"
        records.mkdir(parents=True)
        record = {"pid": identity.pid, "started": identity.started, "container": "ns/p/tensorflow"}
        (records / f"{process.pid}.json").write_text(json.dumps(record))
        output = run("local", "down", "--state-dir", str(tmp_path), code=0).err
        assert process.wait(60) == -9
    finally:
        process.kill()
        process.wait()
    assert "had crashed" in output
    assert "killed the process ns/p/tensorflow" in output
    assert state.read() is None
    assert not state.kubeconfig.exists()
    assert volumes_in(state) == ["claims/default/data/weights"]


def test_a_port_that_is_taken_is_named_and_the_log_begins_anew(tmp_path: Path, run: Run) -> None:
    (tmp_path / "daemon.log").write_text("of the last one\n")
    state = StateDirectory(tmp_path)
    leave_volumes(state)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("local", "up", "--port", str(port), "--state-dir", str(tmp_path), code=1)
    assert f"Address already in use: '127.0.0.1:{port}'" in result.err
    log = (tmp_path / "daemon.log").read_text()
    assert "of the last one" not in log
    assert "can't start" in log
    assert volumes_in(state) == ["claims/default/data/weights"], "the pods of a crashed control plane are gone"


def test_two_that_are_started_at_the_same_time_are_one_and_its_log_stays(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDirectory(tmp_path)
    state.create()
    state.log.write_text("of the first one\n")
    mine = identify(os.getpid())
    assert mine is not None
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def started_second(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*arguments, **options)
        assert process.wait(60) == RUNS_ALREADY
        state.write(DaemonState(mine, "https://127.0.0.1:1", datetime.now(UTC), "/work"))
        started.append(process)
        return process

    with state.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(subprocess, "Popen", started_second)
        result = run("local", "up", "--state-dir", str(tmp_path), code=0)
    assert len(started) == 1
    assert result.out.startswith("export KUBECONFIG=")
    assert f"pid {os.getpid()}" in result.err
    assert state.log.read_text() == "of the first one\n"
