"""Functions that are called again and again, and the time that has passed."""

import threading

from tests.support.clock import FakeClock
from tfoperator.base.clock import Elapsed, Repetition, SystemClock


def test_a_repetition_begins_once_and_never_after_its_end() -> None:
    called = threading.Semaphore(0)
    repetition = Repetition(lambda: called.release(1), seconds=3600, clock=SystemClock(), name="once")
    for _ in range(3):
        repetition.start()
    assert called.acquire(timeout=60)
    repetition.stop()
    repetition.stop()
    repetition.start()
    assert not called.acquire(blocking=False)
    never = Repetition(lambda: called.release(1), seconds=3600, clock=SystemClock(), name="never")
    never.stop()
    never.start()
    never.stop()
    assert not called.acquire(blocking=False)


def test_what_a_repetition_calls_may_say_when_it_is_called_again() -> None:
    called = threading.Semaphore(0)

    def call() -> float:
        called.release(1)
        return 0.001

    repetition = Repetition(call, seconds=3600, clock=SystemClock(), name="soon")
    repetition.start()
    for _ in range(3):
        assert called.acquire(timeout=60)
    repetition.stop()


def test_what_has_passed_is_what_the_faster_clock_says() -> None:
    clock = FakeClock()
    since = Elapsed(clock)
    clock.advance(5)
    assert since.seconds == 5
    clock.jump_wall(100)  # the machine has slept
    assert since.seconds == 105
    clock.jump_wall(-200)
    assert since.seconds == 5
