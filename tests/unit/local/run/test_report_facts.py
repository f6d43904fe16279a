"""The lines of the kernel's log about processes that ran out of memory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local.run import report_facts
from tfoperator.local.run.report_facts import (
    full_disk,
    out_of_memory_kills,
    quiet_seconds,
    read_kernel_log,
    with_kernel_log,
)
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.report.facts import JobFacts, ReplicaFacts, RunFacts

OF_A_GROUP = "Memory cgroup out of memory: Killed process 41 (python) total-vm:9kB, anon-rss:8kB, UID:0 oom_score_adj:0"
OF_ALL = "Out of memory: Killed process 42 (python3) total-vm:99kB"
OLD = "Out of memory: Kill process 43 (python) score 900 or sacrifice child"


def record(text: str, number: int = 1) -> str:
    """As /dev/kmsg has it, with a line of context."""
    return f"3,{number},{number}000,-;{text}\n SUBSYSTEM=memory\n"


LATER = OF_ALL.replace("99kB", "77kB")


@pytest.mark.parametrize(
    ("records", "pids", "kills"),
    [
        (
            [record("usb 1-1: new device"), *map(record, (OF_A_GROUP, OF_ALL, OLD))],
            {41, 42, 43},
            {41: OF_A_GROUP, 42: OF_ALL, 43: OLD},
        ),
        ([record(OF_ALL)], {4, 2, 420}, {}),
        ([record(OF_ALL), record(LATER, 2)], {42}, {42: LATER}),
        ([f"3,1,1,-;harmless\n{OF_ALL}\n"], {42}, {}),
    ],
    ids=["its sentences", "other processes", "a number that was used twice", "what a program wrote into the context"],
)
def test_the_kernels_sentence_about_a_process_is_found(
    records: list[str], pids: set[int], kills: dict[int, str]
) -> None:
    assert out_of_memory_kills(records, pids) == kills


@given(st.lists(st.text()), st.sets(st.integers()))
def test_any_text_is_read_without_an_error(records: list[str], pids: set[int]) -> None:
    assert set(out_of_memory_kills(records, pids)) <= pids


@pytest.fixture
def log() -> Iterator[tuple[Path, int]]:
    """A file that gives one record for each read, as the kernel's does, and where to write them."""
    reader, writer = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
    yield Path(f"/proc/self/fd/{reader}"), writer
    os.close(reader)
    os.close(writer)


def test_every_record_is_read_up_to_the_last_one_there_is_or_that_is_of_use(
    log: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writer = log
    written = [record(f"message {number}", number) for number in range(10)]  # a pipe has room for sixteen
    for kernel_record in written:
        os.write(writer, kernel_record.encode())
    os.write(writer, b"3,1,1,-;\xff\xfe\n")
    assert read_kernel_log(path) == [*written, "3,1,1,-;\ufffd\ufffd\n"]
    for kernel_record in written:
        os.write(writer, kernel_record.encode())
    monkeypatch.setattr(report_facts, "_MAX_RECORDS", 3)
    assert read_kernel_log(path) == written[:3]


def test_records_that_were_overwritten_meanwhile_are_passed_over(
    log: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writer = log
    os.write(writer, record(OF_ALL).encode())
    read, lost = os.read, iter([BrokenPipeError(32, "Broken pipe")])

    def overwritten_once(descriptor: int, size: int) -> bytes:
        for error in lost:
            raise error
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", overwritten_once)
    assert read_kernel_log(path) == [record(OF_ALL)]


@pytest.mark.parametrize("name", ["none", "."])
def test_without_a_log_there_is_nothing_to_read(tmp_path: Path, name: str) -> None:
    assert read_kernel_log(tmp_path / name) == []


HERE, THERE = Path("/here"), Path("/there")


def disk(free: int, *, for_users: int | None = None, files: int = 1000, free_files: int = 10) -> os.statvfs_result:
    """A disk with so many free blocks of 4 KiB."""
    for_users = free if for_users is None else for_users
    return os.statvfs_result((4096, 4096, 10**6, free, for_users, files, free_files, free_files, 0, 255))


@pytest.mark.parametrize(
    ("here", "root", "expected"),
    [
        (disk(10**6), False, ""),
        (disk(3), False, "/here"),
        (disk(10**6, for_users=0), False, "/here"),
        (disk(10**6, for_users=0), True, ""),
        (disk(10**6, free_files=0), False, "/here"),
        (disk(10**6, files=0, free_files=0), False, ""),
    ],
)
def test_a_disk_is_full_without_blocks_or_files_for_this_user_and_what_can_not_be_asked_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, here: os.statvfs_result, root: bool, expected: str
) -> None:
    def ask(folder: Path) -> os.statvfs_result:
        if folder != HERE:
            raise FileNotFoundError(str(folder))
        return here

    monkeypatch.setattr(os, "statvfs", ask)
    assert full_disk([THERE, HERE], root=root) == expected


@pytest.mark.parametrize(
    ("records", "kernel", "silent"),
    [([record(OF_ALL)], OF_ALL, False), ([record("eth0: link up")], "", True), ([], "", False)],
)
def test_a_kernels_log_without_a_word_of_a_kill_is_not_the_same_as_none(
    tmp_path: Path, records: list[str], kernel: str, silent: bool
) -> None:
    log = LogFile(tmp_path / "0.log")
    log.pid = 42
    log.close(137)
    run = RunFacts(exit_code=137, log=str(log.path))
    facts = JobFacts(
        namespace="ns", name="job", outcome="Failed", replicas=(ReplicaFacts(name="worker-0", runs=(run,)),)
    )
    run_facts = with_kernel_log(facts, [log], lambda: records).replicas[0].runs[0]
    assert (run_facts.kernel, run_facts.kernel_silent) == (kernel, silent)


def test_how_long_a_log_has_been_quiet(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "0.log")
    log.append("step 7")
    os.utime(log.path, (1000, 1000))
    gone = LogFile(tmp_path / "1.log")
    assert quiet_seconds([log, gone], 1050.0) == {str(log.path): 50.0}
    assert quiet_seconds([log], 999.0) == {str(log.path): 0.0}
