from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local.node.log_store import LogStore
from tfoperator.local.run.container_output import (
    LEAST,
    MOST,
    LogChunk,
    OutputPace,
    OutputReader,
    fair_shares,
    is_behind,
)
from tfoperator.local.runtime.log_files import LogFile


def write(log: LogFile, text: str) -> None:
    with log.path.open("a") as stream:
        stream.write(text)


def texts(chunks: list[LogChunk], pod: str = "a") -> list[str]:
    return [line for chunk in chunks if chunk.pod == pod for line in chunk.lines]


def read_all(reader: OutputReader, lines: int | None = None) -> list[LogChunk]:
    """Everything that there is, in as many rounds as it takes."""
    chunks = reader.read(lines)
    while reader.more:
        chunks += reader.read(lines)
    return chunks


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path)


@pytest.fixture
def reader(store: LogStore) -> Iterator[OutputReader]:
    output_reader = OutputReader(store)
    yield output_reader
    output_reader.close()


def test_lines_of_all_logs_arrive_whole_and_in_order(store: LogStore, reader: OutputReader) -> None:
    first = store.open("ns", "a", "c")
    write(first, "one\ntw")
    assert texts(reader.read(None)) == ["one"]
    write(first, "o\nlast without end")
    first.close(0)
    store.open("ns", "a", "c").append("again")
    store.open("ns", "b", "c").append("other")
    chunks = read_all(reader)
    lines = [(chunk.attempt, line) for chunk in chunks if chunk.pod == "a" for line in chunk.lines]
    assert lines == [(0, "two"), (0, "last without end"), (1, "again")]
    assert texts(chunks, "b") == ["other"]
    assert reader.read(None) == []


def read(folder: Path, written: bytes, lines: int | None = None) -> list[LogChunk]:
    """Return the chunks that are read of a log that has ended."""
    store = LogStore(folder)
    log = store.open("ns", "a", "c")
    log.path.write_bytes(written)
    log.close(0)
    reader = OutputReader(store)
    chunks = read_all(reader, lines)
    reader.close()
    return chunks


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"10%\r50%\r100%\nwindows\r\n\xff\n", ["100%", "windows", "\N{REPLACEMENT CHARACTER}"]),
        (
            b"".join(b"\r%d/200000 and some words" % number for number in range(200_000)),
            ["199999/200000 and some words"],
        ),
        (b"".join(b"%d\n" % number for number in range(900)), [str(number) for number in range(900)]),
    ],
    ids=["progress bars that have ended", "one of a whole night", "a burst that can be shown soon"],
)
@pytest.mark.parametrize("at_once", [None, 100, 1000])
def test_what_is_shown_whole(tmp_path: Path, written: bytes, lines: list[str], at_once: int | None) -> None:
    chunks = read(tmp_path, written, at_once)
    assert texts(chunks) == lines
    assert at_once is None or max(len(chunk.lines) for chunk in chunks) <= at_once


def test_a_log_that_its_program_has_emptied_is_read_from_its_beginning(store: LogStore, reader: OutputReader) -> None:
    log = store.open("ns", "a", "c")
    write(log, "first\nsecond\nunfinished")
    assert texts(reader.read(None)) == ["first", "second"]
    log.path.write_text("new\n")  # as the shell's `> /dev/stderr` does it
    assert texts(reader.read(None)) == [
        "unfinished",
        "... the program has emptied its log, as `> /dev/stderr` does: `>&2` would not",
        "new",
    ]
    write(log, "last")
    log.close(0)
    assert texts(read_all(reader)) == ["last"]


def test_an_unfinished_progress_bar_is_its_last_state(store: LogStore, reader: OutputReader) -> None:
    log = store.open("ns", "a", "c")
    write(log, "begin\n")
    pieces: list[tuple[tuple[str, ...], str]] = []
    for text in ("10%\r", "20%\r", *(f"{n}%\r" for n in range(21, 60)), "\b\b\r99%", "\r100%\nend\n"):
        write(log, text)
        pieces += [(chunk.lines, chunk.bar) for chunk in reader.read(100)]
    assert pieces[:3] == [(("begin",), ""), ((), "20%"), ((), "21%")]
    assert pieces[-2:] == [((), "99%"), (("100%", "end"), "")]
    assert reader.read(100) == [], "what has not changed is not told again"


def test_a_line_that_never_ends_is_handed_on_in_pieces(tmp_path: Path) -> None:
    pieces = texts(read(tmp_path, b"x" * 1_000_000))
    assert "".join(pieces) == "x" * 1_000_000
    assert max(map(len, pieces)) <= 512 * 1024


def test_who_is_far_behind_passes_over_lines_and_shows_the_newest(tmp_path: Path) -> None:
    many = 3_000_000
    chunks = read(tmp_path, b"".join(b"%d\n" % number for number in range(many)), lines=100)
    shown, skipped = texts(chunks), sum(chunk.skipped for chunk in chunks)
    assert shown[-1] == str(many - 1)
    assert len(shown) + skipped == many
    assert len(shown) < 2000
    assert chunks[0].path == str(tmp_path / "ns/a/c/0.log")


@pytest.mark.parametrize("lines", [100, None])
def test_a_noisy_log_does_not_hide_the_others(store: LogStore, reader: OutputReader, lines: int | None) -> None:
    write(store.open("ns", "noisy", "c"), "noise\n" * 500_000)
    reader.read(lines)
    for name in ("a", "b"):
        store.open("ns", name, "c").append("heard")
    chunks = reader.read(lines)
    assert (texts(chunks, "a"), texts(chunks, "b")) == (["heard"], ["heard"])
    assert reader.more or lines is not None


def test_a_log_that_is_gone_is_no_end_of_the_others(store: LogStore, reader: OutputReader) -> None:
    store.open("ns", "a", "c").path.unlink()
    store.open("ns", "b", "c").append("there")
    assert texts(read_all(reader), "b") == ["there"]


PIECES = st.lists(st.sampled_from([b"word", b"\n", b"\n\n", b"\r", b"x" * 300, b"\r\n"]), max_size=40)


@given(PIECES, PIECES, st.sampled_from([None, 1, 3, 1000]))
def test_every_line_is_shown_or_counted(
    tmp_path_factory: pytest.TempPathFactory, first: list[bytes], second: list[bytes], lines: int | None
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    store = LogStore(folder)
    log = store.open("ns", "a", "c")
    reader = OutputReader(store)
    chunks = []
    for pieces in (first, second):
        with log.path.open("ab") as stream:
            stream.write(b"".join(pieces))
        chunks += read_all(reader, lines)
    log.close(0)
    chunks += read_all(reader, lines)
    reader.close()
    whole = b"".join(first + second)
    expected = [part.decode().rstrip("\r").rpartition("\r")[2] for part in whole.split(b"\n")]
    if not whole.rpartition(b"\n")[2]:
        expected.pop()
    shown = texts(chunks)
    assert len(shown) + sum(chunk.skipped for chunk in chunks) == len(expected)
    if lines in (None, 1000):
        assert shown == expected
    else:
        rest = iter(expected)
        assert all(line in rest for line in shown), "in their order"


@given(st.dictionaries(st.integers(), st.integers(0, 5000), max_size=30), st.integers(LEAST, MOST))
def test_shares_are_fair(waiting: dict[int, int], lines: int) -> None:
    shares = fair_shares(waiting, lines)
    assert set(shares) == {log for log, count in waiting.items() if count}
    assert sum(shares.values()) <= max(lines, len(shares))
    assert all(1 <= share <= waiting[log] for log, share in shares.items())
    cut = [share for log, share in shares.items() if share < waiting[log]]
    if cut:
        assert max(shares.values()) - min(cut) <= 1, "nobody gets more than one who does not get all"
        assert sum(shares.values()) >= lines - len(shares)


def test_a_slow_terminal_gets_less_and_a_fast_one_more_and_ten_rounds_are_not_behind() -> None:
    pace = OutputPace(1000)
    assert pace.after(1000, 5.0).lines == 500
    assert pace.after(1000, 0.01).lines == 2000
    assert pace.after(10, 0.01) == pace, "what was not asked for says nothing"
    for seconds, lines in ((5.0, LEAST), (0.0, MOST)):
        for _ in range(20):
            pace = pace.after(pace.lines, seconds)
        assert pace.lines == lines
    assert [is_behind(*waiting) for waiting in ((1000, 100), (1001, 100), (0, 0))] == [False, True, False]
