"""A program that registers is asked for its stacks from outside, whatever it does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tfoperator.progress import stacks
from tfoperator.progress.stacks import STACKS_VARIABLE, register, take

HANG = """
import threading
from tfoperator.progress import stacks
{before}
print(stacks.register(), flush=True)
def wait_for_ever():
    threading.Event().wait()
wait_for_ever()
"""


@contextmanager
def program(folder: Path, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that has registered, or has found that it can't, and hangs."""
    environment = {**os.environ, STACKS_VARIABLE: str(folder)}
    command = [sys.executable, "-c", HANG.format(before=before)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            process.output = process.stdout.readline().strip()  # type: ignore[attr-defined]
            yield process
        finally:
            process.kill()


def test_a_program_that_hangs_says_where_and_one_that_is_stopped_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with program(tmp_path) as process:
        eventually(lambda: "wait_for_ever" in next(take(tmp_path, timeout=30))[1], within=60)
        ((pid, text),) = take(tmp_path, timeout=30)
        assert pid == process.pid
        assert text.count("wait_for_ever") == 1  # its earlier output is not repeated
        assert process.poll() is None
        os.kill(process.pid, signal.SIGSTOP)
        ((_, text),) = take(tmp_path, timeout=0.5)
        assert "stopped (SIGSTOP)" in text


def test_a_program_with_a_handler_of_its_own_keeps_it(tmp_path: Path) -> None:
    with program(tmp_path, "import signal; signal.signal(signal.SIGUSR1, lambda *_: None)") as process:
        assert process.output == "False"  # type: ignore[attr-defined]
        assert list(take(tmp_path)) == []


def test_who_does_not_handle_the_signal_is_not_sent_it(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        (tmp_path / f"{process.pid}.txt").touch()
        (tmp_path / "0.txt").touch()
        (tmp_path / "no-number.txt").touch()
        ((pid, text),) = take(tmp_path)
        assert pid == process.pid
        assert "its program has replaced the handler of SIGUSR1" in text
        assert process.poll() is None
        process.kill()


class Numbered:
    """A process of which only the number is known, by the name of a file; it writes its stacks on a signal."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.file = folder / f"{number}.txt"
        self.file.touch()
        self.signals: list[int] = []
        monkeypatch.setattr(os, "getpgid", lambda pid: number)
        monkeypatch.setattr(os, "kill", self._kill)

    def _kill(self, _: int, number: int) -> None:
        self.signals.append(number)
        self.file.write_text("File train.py")


@pytest.mark.parametrize("registered", [True, False])
def test_process_1_is_asked_if_it_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: bool) -> None:
    """It is what trains, where no shell has started it; a machine's first process may halt it on this signal."""
    first = Numbered(tmp_path, monkeypatch, 1)
    monkeypatch.setattr(stacks, "_status", lambda pid: {"State": "S (sleeping)", "SigCgt": "f" * 16})
    monkeypatch.setattr(stacks, "_open_files", lambda pid: [first.file.stat()] if registered else [])
    ((pid, text),) = take(tmp_path, timeout=30)
    assert pid == 1
    assert ("File train.py" if registered else "another process") in text
    assert first.signals == [signal.SIGUSR1] * registered


def test_processes_of_others_and_who_has_registered_elsewhere_are_left_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    with program(there) as process:
        (tmp_path / f"{process.pid}.txt").touch()
        ((pid, text),) = take(tmp_path)
        assert (pid, "another process" in text) == (process.pid, True)
        assert list(take(there, group=os.getpgid(0))) == []
        assert [pid for pid, _ in take(there, group=process.pid, timeout=30)] == [process.pid]


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv(STACKS_VARIABLE, str(tmp_path / "link"))
    monkeypatch.setattr(stacks, "_registered", {})  # another test of this process may have registered
    assert not register()
    assert list((tmp_path / "real").iterdir()) == []


def test_parents_that_are_missing_are_private_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a" / "b" / "stacks"
    monkeypatch.setenv(STACKS_VARIABLE, str(folder))
    before = os.umask(0)
    try:
        assert stacks._directory() == folder
    finally:
        os.umask(before)
    assert {directory.stat().st_mode & 0o777 for directory in (folder, folder.parent, folder.parent.parent)} == {0o700}


def test_where_no_file_can_be_made_the_command_says_so(tmp_path: Path) -> None:
    """As in a container whose root is read-only, and that has nothing at /tmp."""
    (tmp_path / "file").touch()
    program = (
        f"import sys, tempfile; tempfile._candidate_tempdir_list = lambda: ['{tmp_path}/file/x']; "
        "from tfoperator.progress import stacks; assert not stacks.register(); sys.exit(stacks.main())"
    )
    environment = {name: value for name, value in os.environ.items() if name != STACKS_VARIABLE}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no folder for temporary files can be written here" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_prints_the_stacks_of_its_container(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfoperator.progress.stacks"]
    environment = {**os.environ, STACKS_VARIABLE: str(tmp_path)}
    alone = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert "register()" in alone.stderr
    with program(tmp_path) as process:

        def asked() -> str:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0
            assert "wait_for_ever" in done.stdout
            return done.stdout

        assert f"Process {process.pid}:" in eventually(asked, within=60)


@pytest.mark.parametrize(("later", "asked"), [(-60.0, True), (0.9, True), (60.0, False), (None, True)])
def test_a_process_that_is_younger_than_its_file_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: float | None, asked: bool
) -> None:
    """Where open files can't be seen, as on macOS: the number may be another's by now, whom the signal would end."""
    process = Numbered(tmp_path, monkeypatch, 4711)
    made = process.file.stat().st_mtime

    def unseen(pid: int) -> list[os.stat_result]:
        raise FileNotFoundError

    monkeypatch.setattr(stacks, "_status", lambda pid: {})
    monkeypatch.setattr(stacks, "_open_files", unseen)
    monkeypatch.setattr(stacks, "_started", lambda pid: None if later is None else made + later)
    ((_, text),) = take(tmp_path, timeout=30)
    assert ("File train.py" in text) is asked
    assert process.signals == [signal.SIGUSR1] * asked


def test_ps_says_when_a_process_was_started() -> None:
    before = time.time()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = stacks._started(process.pid)
        process.kill()
    assert started is not None
    assert before - stacks._SLACK <= started <= time.time() + stacks._SLACK
    assert stacks._started(2**22 + 1) is None
