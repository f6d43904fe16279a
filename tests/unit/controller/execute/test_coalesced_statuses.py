"""The counts of a job are written once a second: the controller over a fake API server, with real informers."""

from collections.abc import Iterator

import pytest

from tests.support.clock import FakeClock
from tests.support.controller_harness import Harness
from tests.support.eventually import eventually
from tests.support.fake_api import api_error
from tests.support.plan_options import controller_options, plan_options

OPTIONS = controller_options(batch_period=0, plan=plan_options(counts_period=1.0))


@pytest.fixture
def harness(clock: FakeClock) -> Iterator[Harness]:
    """With a job of six workers, of which one is known to run, and has just been."""
    with Harness(clock=clock, options=OPTIONS) as new_harness:
        new_harness.submit_and_sync(Worker=6)
        new_harness.sync()
        comes_up(new_harness, 0)
        assert new_harness.status()["ready"] == "1/6"
        yield new_harness


def comes_up(harness: Harness, index: int) -> None:
    """A worker runs, and the job is looked at."""
    harness.play_kubelet(f"job-worker-{index}", "Running")
    harness.sync()


def test_nobody_has_to_look_for_it_to_be_written_in_time(harness: Harness, clock: FakeClock) -> None:
    harness.controller.start()
    eventually(lambda: harness.queue.delayed == 0)
    harness.play_kubelet("job-worker-1", "Running")
    eventually(lambda: harness.queue.delayed == 1, what="the job is to be looked at again")
    assert harness.status()["ready"] == "1/6"
    clock.advance(1.0)
    eventually(lambda: harness.status()["ready"] == "2/6")


def test_a_write_that_fails_does_not_begin_to_wait_anew(harness: Harness, clock: FakeClock) -> None:
    comes_up(harness, 1)
    clock.advance(1)
    harness.api.fail("replace", "tfjobs", api_error(409, "Conflict", "it has changed"))
    harness.sync()
    assert harness.status()["ready"] == "1/6"
    comes_up(harness, 2)
    assert harness.status()["ready"] == "3/6"
