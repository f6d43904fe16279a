import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.ui.pipelines.pages import StepLogTail
from tfoperator.ui.problems import CannotRead

ALL = 500_000


def lines(tail: StepLogTail) -> list[str]:
    read_lines: list[str] = []
    while piece := tail.read()[0]:
        read_lines += piece
    return read_lines


def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = StepLogTail(lambda: path, tail_lines=ALL)
    assert tail.read() == ([], False)  # no file yet
    with path.open("a") as log:
        log.write("one\ntwo\nthr")
        log.flush()
        assert tail.read()[0] == ["one", "two"]
        log.write("ee\n\n")
        log.flush()
        assert tail.read()[0] == ["three", ""]
        assert tail.read() == ([], False)
        log.write("no end")
    assert lines(tail) == []
    assert lines(tail) == ["no end"]


@given(st.lists(st.text("ab\u00e9 \r", max_size=5), max_size=30), st.integers(1, 40), st.booleans())
def test_the_last_lines_come_first(tmp_path_factory: Any, all_: list[str], number: int, end: bool) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    text = "\n".join(all_) + ("\n" if end else "")
    path.write_bytes(text.encode())
    tail = StepLogTail(lambda: path, tail_lines=number)
    expected = text.split("\n")
    if expected[-1] == "":
        expected.pop()
    assert lines(tail) + lines(tail) == expected[-number:]


def test_a_file_larger_than_a_piece_is_read_to_its_end_and_from_its_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {n:06}\n" for n in range(60_000)))
    for number in (50_000, ALL):
        tail = StepLogTail(lambda: path, tail_lines=number)
        read_lines = lines(tail)
        assert (len(read_lines), read_lines[-1]) == (min(number, 60_000), "line 059999")


def test_a_line_without_an_end_is_cut_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("x" * 1_000_000)
    tail = StepLogTail(lambda: path, tail_lines=5)
    read_lines = lines(tail)
    assert "".join(read_lines + lines(tail)) == "x" * 1_000_000
    assert max(map(len, read_lines)) <= 64 << 10


def test_another_file_in_its_place_is_read_afresh(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\nolder\n")
    tail = StepLogTail(lambda: path, tail_lines=ALL)
    assert lines(tail) == ["old", "older"]
    path.unlink()
    assert tail.read()[1]
    path.write_text("new\n")
    assert tail.read()[0] == ["new"]
    path.write_text("x\n")  # shorter than before
    assert tail.read() == (["x"], True)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_nothing_but_a_file_is_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log"
    if kind == "link":
        (tmp_path / "secret").write_text("secret")
        path.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    tail = StepLogTail(lambda: path, tail_lines=ALL)
    with pytest.raises(CannotRead):
        tail.read()
