from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local.run.pace import LEAST, MOST, Pace, fair_shares, is_behind


def test_who_says_little_is_heard_whole_and_the_others_share_the_rest() -> None:
    assert fair_shares({"noisy": 10_000, "loud": 9000, "quiet": 3, "silent": 0}, 103) == {
        "quiet": 3,
        "loud": 50,
        "noisy": 50,
    }


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


def test_a_slow_terminal_gets_less_and_a_fast_one_more() -> None:
    pace = Pace(1000)
    assert pace.after(1000, 5.0).lines == 500
    assert pace.after(1000, 0.01).lines == 2000
    assert pace.after(10, 0.01) == pace, "what was not asked for says nothing"
    for _ in range(20):
        pace = pace.after(pace.lines, 5.0)
    assert pace.lines == LEAST
    for _ in range(20):
        pace = pace.after(pace.lines, 0.0)
    assert pace.lines == MOST


def test_ten_rounds_are_not_behind() -> None:
    assert not is_behind(1000, 100)
    assert is_behind(1001, 100)
    assert not is_behind(0, 0)
