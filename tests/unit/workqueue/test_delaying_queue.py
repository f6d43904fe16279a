import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.unit.workqueue.support import begin, drain
from tfoperator.workqueue import DelayingQueue


@pytest.fixture
def queue(clock: FakeClock) -> Iterator[DelayingQueue[str]]:
    queue: DelayingQueue[str] = DelayingQueue(name="jobs", clock=clock)
    yield queue
    queue.shut_down(0)


def advance(clock: FakeClock, queue: DelayingQueue[str], seconds: float, until: float, then: float | None) -> list[str]:
    """Once the queue's thread sleeps `until`, let time pass; once it sleeps until `then`, take what arrived."""
    clock.wait_for_deadline(until)
    clock.advance(seconds)
    clock.wait_for_deadline(then)
    return drain(queue)


def test_delayed_items_emerge_sorted_by_time_and_none_early(clock: FakeClock, queue: DelayingQueue[str]) -> None:
    for item, seconds in (("three", 0.0645), ("one", 0.0625), ("two", 0.0635)):
        queue.add_after(item, seconds)
    assert advance(clock, queue, 0.0615, until=0.0625, then=0.0625) == []
    assert advance(clock, queue, 0.003, until=0.0625, then=None) == ["one", "two", "three"]


def test_its_thread_begins_with_the_first_delay_and_ends_with_a_shutdown_that_drops_it(clock: FakeClock) -> None:
    before = set(threading.enumerate())
    queue: DelayingQueue[str] = DelayingQueue(name="jobs", clock=clock)
    begin(queue, "at once")
    queue.done("at once")
    assert set(threading.enumerate()) <= before
    queue.add_after("foo", 1)
    assert [t.name for t in threading.enumerate() if t not in before] == ["workqueue-delay-jobs"]
    assert queue.shut_down()
    assert set(threading.enumerate()) <= before
    queue.add_after("bar", 0)
    queue.add_after("bar", 1)
    clock.advance(2)
    assert (len(queue), queue.delayed) == (0, 0)


def test_deadlines_that_move_forward_again_and_again_do_not_pile_up(queue: DelayingQueue[str]) -> None:
    queue.add_after("far", 1e6)
    for step in range(10_000):
        queue.add_after("foo", 10_000 - step)
    assert queue.delayed == 2
    assert len(queue._heap) < 200


def test_of_many_deadlines_the_earliest_delivers_an_item_once(clock: FakeClock, queue: DelayingQueue[str]) -> None:
    for step in range(500):
        queue.add_after("foo", 1000 - step)
    assert advance(clock, queue, 501, until=501, then=None) == ["foo"]
    clock.advance(1000)
    clock.wait_for_deadline(None)
    assert len(queue) == 0


def test_a_delivered_item_can_be_garbage_collected(clock: FakeClock) -> None:
    class Item:
        pass

    queue: DelayingQueue[Item] = DelayingQueue(clock=clock)
    item = Item()
    gone = weakref.ref(item)
    queue.add_after(item, 1)
    del item
    clock.pass_time(1)
    queue.done(queue.get())

    def collected() -> bool:
        gc.collect()
        return gone() is None

    eventually(collected)
    queue.shut_down(0)
