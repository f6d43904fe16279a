import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.threads import InThread
from tests.unit.local.node.pods import python
from tfoperator.local.identity import identify
from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE
from tfoperator.local.runtime.process.cleanup.records import RECORDS, kill_left_behind, record_group, record_owner
from tfoperator.local.runtime.process.mounts.mount_links import LinkUser, MountLinks


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def records(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> Path:
    """The records of a run with one container and one link."""
    records = tmp_path / "runs" / "first" / RECORDS
    records.mkdir(parents=True, mode=0o700)
    record_group(records, sleeper.pid, "ns/p/tensorflow")
    MountLinks(records).make(LinkUser("pod", "ns/pod", "v"), tmp_path / "mnt", tmp_path)
    return records


def died(records: Path, guardian: int | None = None, mark: str = "") -> None:
    """Its runner was killed; its guardian, too, or it is the one given."""
    record_owner(records, guardian, mark)
    owner = json.loads((records / "owner").read_bytes())
    owner["owner"]["started"] += "0"
    (records / "owner").write_text(json.dumps(owner))


def test_what_a_killed_run_has_left_ends_with_the_next_run(
    records: Path, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "runs" / "latest").symlink_to("first")
    died(records)
    assert kill_left_behind(tmp_path / "runs") == ["ns/p/tensorflow"]
    assert sleeper.wait(60) < 0
    assert not (tmp_path / "mnt").is_symlink()
    assert not records.exists()


def test_what_has_left_its_group_is_found_by_the_mark_of_the_run(records: Path, tmp_path: Path) -> None:
    environment = {CONTAINER_VARIABLE: "mark.7"}
    daemon, stranger = (
        subprocess.Popen(["sleep", "60"], start_new_session=True, env=variables)
        for variables in (environment, {CONTAINER_VARIABLE: "marked.7"})
    )
    try:
        died(records, mark="mark")
        kill_left_behind(tmp_path / "runs")
        assert daemon.wait(60) == -signal.SIGKILL
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        daemon.kill()
        daemon.wait()


def test_a_guardian_at_work_is_given_time(records: Path, tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    ending = f"import os, time; os.kill({sleeper.pid}, 15); stat = lambda: open('/proc/{sleeper.pid}/stat').read()\n"
    ending += "while ' Z ' not in stat(): time.sleep(0.05)"
    guardian = subprocess.Popen(python(ending))
    died(records, guardian.pid)
    waiting = InThread(guardian.wait)  # its parent is no more, elsewhere
    assert kill_left_behind(tmp_path / "runs", patience=60) == []
    assert sleeper.wait(60) == -signal.SIGTERM
    assert waiting.result() == 0


def test_a_guardian_that_hangs_is_not_waited_for_for_ever(records: Path, tmp_path: Path) -> None:
    guardian = subprocess.Popen(python("import time; time.sleep(60)"))
    try:
        died(records, guardian.pid)
        assert kill_left_behind(tmp_path / "runs", patience=0.0) == ["ns/p/tensorflow"]
    finally:
        guardian.kill()
        guardian.wait()


def test_a_run_that_lives_keeps_what_it_has_and_records_that_another_user_could_have_written_are_not_believed(
    records: Path, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    died(records)
    records.chmod(0o777)
    assert kill_left_behind(tmp_path / "runs") == []
    linked = tmp_path / "runs" / "second"
    linked.mkdir()
    (linked / RECORDS).symlink_to(records)
    assert kill_left_behind(tmp_path / "runs") == []
    assert identify(sleeper.pid) is not None
    record_owner(records, None)
    assert kill_left_behind(tmp_path / "runs") == []
    (records / "owner").write_text("[1]")
    assert kill_left_behind(tmp_path / "runs") == []
    assert kill_left_behind(tmp_path / "none") == []
    assert identify(sleeper.pid) is not None
    assert (tmp_path / "mnt").is_symlink()
