import random
from unittest.mock import Mock

import pytest

from tests.support.clock import FakeClock
from tfoperator.kube.protocol.errors import AlreadyExistsError, ConflictError, NotFoundError, Status
from tfoperator.kube.protocol.retry import Backoff, retry_on_conflict


def conflict(number: int) -> ConflictError:
    return ConflictError(Status(code=409, reason="Conflict", message=f"conflict {number}"))


def test_it_tries_again_until_there_is_no_conflict_and_raises_the_fifth() -> None:
    pauses: list[float] = []
    update = Mock(side_effect=[*map(conflict, (1, 2, 3)), "done"])
    assert retry_on_conflict(update, sleep=pauses.append) == "done"
    assert len(pauses) == 3
    assert all(0.010 <= pause <= 0.011 for pause in pauses)
    with pytest.raises(ConflictError, match="conflict 5"):
        retry_on_conflict(Mock(side_effect=map(conflict, range(1, 10))), sleep=lambda _: None)


@pytest.mark.parametrize("error", [NotFoundError(Status(code=404)), AlreadyExistsError(Status(code=409))])
def test_other_errors_end_it_at_once(error: Exception) -> None:
    update = Mock(side_effect=error)
    with pytest.raises(type(error)):
        retry_on_conflict(update)
    assert update.call_count == 1


def drawing(number: float, clock: FakeClock | None = None) -> Backoff:
    """A backoff whose jitter is always the same."""
    return Backoff(cap=30, clock=clock or FakeClock(), rng=Mock(random=lambda: number))


def test_delays_double_up_to_the_cap_and_jitter_stretches_them_up_to_twice() -> None:
    backoff = drawing(0)
    assert [backoff.next() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    assert {backoff.next() for _ in range(5000)} == {30}
    assert drawing(0.75).next() == 0.8 * 1.75
    rng = random.Random(1)
    delays = [Backoff(cap=30, clock=FakeClock(), rng=rng).next() for _ in range(200)]
    assert 0.8 <= min(delays) < 0.9
    assert 1.5 < max(delays) <= 1.6


def test_two_quiet_minutes_start_it_over_and_so_does_forgetting_at_once() -> None:
    clock = FakeClock()
    backoff = drawing(0, clock)
    assert [backoff.next() for _ in range(3)] == [0.8, 1.6, 3.2]
    clock.advance(119)
    assert backoff.next() == 6.4
    clock.advance(121)
    assert [backoff.next() for _ in range(2)] == [0.8, 1.6]
    backoff.forget()
    assert [backoff.next() for _ in range(2)] == [0.8, 1.6]
