import pytest

from tfoperator.kube.http.sending.gathering import Gathering


def after(*taken: float) -> Gathering:
    gathering = Gathering()
    for seconds in taken:
        gathering.took("pods", seconds)
    return gathering


@pytest.mark.parametrize("seconds", [0.001, 0.005, 0.06, 5.0])
def test_a_server_that_has_room_is_not_kept_waiting(seconds: float) -> None:
    """Each answer takes as long as any other, however many are under way."""
    assert after(*[seconds] * 100).seconds(1000) == pytest.approx(0.0)


def test_answers_of_a_busy_server_are_gathered_for_half_of_their_wait_and_a_kind_that_takes_longer_does_not_wait() -> (
    None
):
    assert after(0.003, *[0.023] * 200).seconds(16) == pytest.approx(0.01, rel=0.05)
    gathering = Gathering()
    for _ in range(200):
        gathering.took("services", 0.005)
        gathering.took("pods", 0.1)
    assert gathering.seconds(16) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("taken", "under_way", "seconds"),
    [
        pytest.param([0.003, *[10.0] * 200], 16, 0.02, id="as long as the limit"),
        *(pytest.param([0.003, *[0.1] * 200], few, 0.0, id=f"not for the last {few}") for few in (0, 1, 3)),
        *(pytest.param([10.0] * answers, 16, 0.0, id=f"not after {answers} answers") for answers in (0, 1)),
    ],
)
def test_answers_are_gathered(taken: list[float], under_way: int, seconds: float) -> None:
    assert after(*taken).seconds(under_way) == pytest.approx(seconds)


def test_what_was_gathered_does_not_make_it_gather_more() -> None:
    """The time that an answer waits here counts as its own; a server with room must not seem busy for that."""
    gathering = after(0.03, *[0.05] * 50)
    for _ in range(300):
        gathering.took("pods", 0.03 + gathering.seconds(16))
    assert gathering.seconds(16) < 0.0005


def test_a_server_that_has_become_slower_for_good_is_not_busy_for_ever() -> None:
    gathering = after(0.005, *[0.03] * 1000)
    before = gathering.seconds(16)
    assert before > 0.005
    for _ in range(50_000):
        gathering.took("pods", 0.03)
    assert gathering.seconds(16) < before / 10
