from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local import logs
from tfoperator.local.logs import LogNotFound, LogStore, last_lines


def test_attempts_are_counted_per_container_and_over_runs(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    first, second = store.open("ns", "p", "c"), store.open("ns", "p", "c")
    assert (first.attempt, second.attempt, store.open("ns", "p", "other").attempt) == (0, 1, 0)
    assert second.path == tmp_path / "ns" / "p" / "c" / "1.log"
    assert LogStore(tmp_path).open("ns", "p", "c").attempt == 2


def test_the_latest_attempt_is_read_and_the_one_before_on_request(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    store.open("ns", "p", "c").append("old")
    store.open("ns", "p", "c").append("new")
    assert b"".join(store.read("ns", "p", "c")) == b"new\n"
    assert b"".join(store.read("ns", "p", "", previous=True)) == b"old\n"


def test_an_earlier_pod_of_that_name_is_no_previous_run(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    store.open("ns", "p", "c", owner="first pod").append("old")
    store.open("ns", "p", "c", owner="second pod").append("new")
    assert b"".join(store.read("ns", "p", "c")) == b"new\n"
    with pytest.raises(LogNotFound, match="previous"):
        store.read("ns", "p", "c", previous=True)


def test_a_log_that_is_not_there_is_an_error_before_iteration(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    with pytest.raises(LogNotFound, match="ns/p has not started"):
        store.read("ns", "p", "c")
    store.open("ns", "p", "c")
    with pytest.raises(LogNotFound, match="previous"):
        store.read("ns", "p", "c", previous=True)
    store.open("ns", "p", "d")
    with pytest.raises(LogNotFound, match="c, d"):
        store.read("ns", "p", "")


def test_a_follower_gets_what_is_written_until_the_container_ends(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    log = store.open("ns", "p", "c")
    log.append("before")
    pieces: list[bytes] = []
    seen = threading.Event()

    def follow() -> None:
        for piece in store.read("ns", "p", "c", follow=True):
            pieces.append(piece)
            if piece:
                seen.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert seen.wait(10)
    log.append("after")
    log.close()
    thread.join(10)
    assert b"".join(pieces) == b"before\nafter\n"


def test_a_log_knows_how_its_container_ended(tmp_path: Path) -> None:
    log = LogStore(tmp_path).open("ns", "p", "c")
    assert not log.closed
    log.close(3)
    log.close(0, stopped=True)
    assert (log.exit_code, log.stopped) == (3, False)


def test_closing_the_store_ends_followers(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    store.open("ns", "p", "c")
    thread = threading.Thread(target=lambda: list(store.read("ns", "p", "c", follow=True)))
    thread.start()
    store.close()
    thread.join(10)
    assert not thread.is_alive()


@given(st.lists(st.text("ab", max_size=6), max_size=12), st.integers(0, 15), st.booleans(), st.integers(1, 9))
def test_the_tail_is_the_last_lines_wherever_blocks_are_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], count: int, ended: bool, chunk: int
) -> None:
    path = tmp_path_factory.mktemp("tail") / "0.log"
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    path.write_text(text)
    before = logs._CHUNK
    logs._CHUNK = chunk
    try:
        expected = text.splitlines()
        assert last_lines(path, count) == (expected[-count:] if count else [])
    finally:
        logs._CHUNK = before


def test_the_tail_of_no_file_is_empty(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none", 5) == []
