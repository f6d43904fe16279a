from __future__ import annotations

from tfoperator.local.node.container_record import backoff


def test_backoff_doubles_up_to_five_minutes() -> None:
    assert [backoff(n) for n in (1, 2, 3, 4, 5)] == [0, 1, 2, 4, 8]
    assert backoff(40) == 300
