from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.logs.archive.log_file import save_log


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=30), st.integers(1, 200))
def test_a_log_is_kept_whole_or_its_end_within_the_limit(pieces: list[bytes], limit: int) -> None:
    whole = b"".join(pieces)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.log"
        saved = save_log(pieces, path, limit=limit, in_time=lambda: True)
        kept = path.read_bytes()
        assert [entry.name for entry in Path(folder).iterdir()] == ["c.log"]
    assert whole.endswith(kept)
    assert (saved.size, saved.dropped, saved.complete) == (len(kept), len(whole) - len(kept), True)
    # A piece is never cut, so one more of them may fit in each half.
    assert len(kept) <= limit + 2 * 50
    assert kept == whole or len(kept) >= limit // 2


def test_what_came_before_the_time_was_up_or_the_connection_broke_is_kept(tmp_path: Path) -> None:
    answers = iter([True, False])
    saved = save_log([b"1", b"2", b"3"], tmp_path / "c.log", limit=100, in_time=lambda: next(answers))
    assert (tmp_path / "c.log").read_bytes() == b"12"
    assert not saved.complete

    def pieces() -> Iterator[bytes]:
        yield b"first"
        yield b"second"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        save_log(pieces(), tmp_path / "d.log", limit=20, in_time=lambda: True)
    assert (tmp_path / "d.log").read_bytes() == b"firstsecond"
    assert len(list(tmp_path.iterdir())) == 2


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=30), st.integers(1, 200), st.integers(0, 300))
def test_no_more_is_ever_written_than_there_is_room(pieces: list[bytes], limit: int, most: int) -> None:
    whole, claimed = b"".join(pieces), 0

    def room(size: int) -> bool:
        nonlocal claimed
        if claimed + size > most:
            return False
        claimed += size
        return True

    with TemporaryDirectory() as folder:

        def read() -> Iterator[bytes]:
            for piece in pieces:
                yield piece
                assert sum(entry.stat().st_size for entry in Path(folder).iterdir()) <= claimed <= most

        path = Path(folder) / "c.log"
        saved = save_log(read(), path, limit=limit, in_time=lambda: True, room=room)
        kept = path.read_bytes()
        assert [entry.name for entry in Path(folder).iterdir()] == ["c.log"]
    assert claimed == len(kept) == saved.size
    assert saved.full == any(len(piece) > most for piece in pieces)
    if not saved.full:
        assert whole.endswith(kept)
        assert saved.dropped == len(whole) - len(kept)
