import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.v1.status import MAX_INDEXES, format_indexes, parse_indexes


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([5, 3, 2, 4, 0], "0,2-5"),
        ([1, 1, 3, 3], "1,3"),
        ([0, 1, 2, 7, 9, 10], "0-2,7,9-10"),
    ],
)
def test_indexes_are_written_ascending_with_neighbours_joined(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text


@given(st.sets(st.integers(0, 300)))
def test_what_is_written_reads_back_and_is_no_longer_than_the_plain_list(indexes: set[int]) -> None:
    text = format_indexes(indexes)
    assert parse_indexes(text) == indexes
    assert len(text) <= len(",".join(map(str, indexes)))


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("3,1-2,2", {1, 2, 3}), (" 1 , 2 - 3 ", {1}), ("x,4,-5,6-,7-5,,8", {4, 8}), ("1--3", set()), ("², ٣", set())],
)
def test_reading_keeps_what_it_understands(text: str, indexes: set[int]) -> None:
    assert parse_indexes(text) == indexes


@given(st.text(alphabet="0123456789,- x", max_size=40))
def test_reading_is_total_and_bounded(text: str) -> None:
    assert len(parse_indexes(text)) <= MAX_INDEXES


def test_a_huge_range_is_cut() -> None:
    assert len(parse_indexes("0-2147483647,5")) == MAX_INDEXES
    assert len(parse_indexes("0-99,1000000-2000000")) == MAX_INDEXES
