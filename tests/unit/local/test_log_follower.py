from __future__ import annotations

from pathlib import Path

from tests.support.eventually import eventually
from tfoperator.local.log_follower import LogFollower, LogLine
from tfoperator.local.logs import LogStore


def test_lines_of_all_logs_arrive_whole_and_in_order(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    lines: list[LogLine] = []
    follower = LogFollower(store, lines.extend)
    follower.start()
    first = store.open("ns", "a", "c")
    with first.path.open("a") as stream:
        stream.write("one\ntw")
        stream.flush()
        eventually(lambda: [line.text for line in lines] == ["one"])
        stream.write("o\nlast without end")
    first.close(0)
    second = store.open("ns", "a", "c")
    second.append("again")
    store.open("ns", "b", "c").append("other")
    eventually(lambda: len(lines) == 5)
    follower.stop()
    assert [line.text for line in lines if line.pod == "a"] == ["one", "two", "last without end", "again"]
    assert [line.attempt for line in lines if line.pod == "a"] == [0, 0, 0, 1]


def test_stop_reads_what_is_there(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    lines: list[LogLine] = []
    follower = LogFollower(store, lines.extend)
    log = store.open("ns", "a", "c")
    for number in range(1000):
        log.append(str(number))
    log.close(0)
    follower.start()
    follower.stop()
    assert [line.text for line in lines] == [str(number) for number in range(1000)]


def test_of_a_progress_bar_the_last_state_is_shown(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    lines: list[LogLine] = []
    log = store.open("ns", "a", "c")
    log.path.write_bytes(b"10%\r50%\r100%\nwindows\r\n\xff\n")
    log.close(0)
    follower = LogFollower(store, lines.extend)
    follower.start()
    follower.stop()
    assert [line.text for line in lines] == ["100%", "windows", "\N{REPLACEMENT CHARACTER}"]


def test_a_line_that_never_ends_is_handed_on_in_pieces(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    lines: list[LogLine] = []
    log = store.open("ns", "a", "c")
    log.path.write_bytes(b"x" * 1_000_000)
    log.close(0)
    follower = LogFollower(store, lines.extend)
    follower.start()
    follower.stop()
    assert "".join(line.text for line in lines) == "x" * 1_000_000
    assert max(len(line.text) for line in lines) <= 512 * 1024
