from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.base import files
from tfoperator.local.runtime.log_files import last_lines


@given(st.lists(st.text("ab", max_size=6), max_size=12), st.integers(0, 15), st.booleans(), st.integers(1, 9))
def test_the_tail_is_the_last_lines_wherever_blocks_are_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], count: int, ended: bool, chunk: int
) -> None:
    path = tmp_path_factory.mktemp("tail") / "0.log"
    text = "\n".join(lines) + ("\n" if ended and lines else "")
    path.write_text(text)
    before = files._CHUNK
    files._CHUNK = chunk
    try:
        expected = text.splitlines()
        assert last_lines(path, count) == (expected[-count:] if count else [])
    finally:
        files._CHUNK = before


def test_the_tail_of_no_file_is_empty_and_the_states_of_a_progress_bar_are_one_line_of_it(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none", 5) == []
    path = tmp_path / "0.log"
    states = "".join(f"\rcleaning up {number}/100" for number in range(101))
    path.write_text(f"ERROR: shard 3 is missing\n{states}\n")
    assert last_lines(path, 20) == ["ERROR: shard 3 is missing", "cleaning up 100/100"]
