import threading
from decimal import Decimal

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.threads import InThread
from tests.unit.workqueue.support import begin
from tfoperator.workqueue import DelayingQueue, Workers
from tfoperator.workqueue.queue import Queue, ShutDown


@pytest.fixture
def queue(clock: FakeClock) -> Queue[str]:
    return Queue(name="jobs", clock=clock)


def test_adds_before_a_get_collapse_into_one_and_the_first_object_is_delivered() -> None:
    first, second = Decimal("1.0"), Decimal("1.00")
    assert first == second
    queue: Queue[Decimal] = Queue()
    queue.add(first)
    queue.add(second)
    assert queue.is_busy()
    assert queue.get() is first
    assert queue.is_busy()
    queue.done(first)
    assert len(queue) == 0
    assert not queue.is_busy()


def test_a_second_worker_gets_a_readded_item_only_when_the_first_is_done(queue: Queue[str], clock: FakeClock) -> None:
    begin(queue, "foo")
    queue.add("foo")
    second = InThread(queue.get)
    clock.wait_for_waiters(1, timed=False)
    assert second.running
    queue.done("foo")
    assert second.result() == "foo"
    queue.done("foo")


def test_many_producers_and_consumers_lose_nothing_and_never_share_an_item() -> None:
    queue: Queue[int] = Queue()
    lock = threading.Lock()
    active: set[int] = set()
    seen: set[int] = set()
    shared: list[int] = []
    threads: set[str] = set()

    def work(item: int) -> None:
        with lock:
            threads.add(threading.current_thread().name)
            if item in active:
                shared.append(item)
            active.add(item)
            seen.add(item)
        with lock:
            active.remove(item)

    def produce(number: int) -> None:
        for repeat in range(20):
            queue.add(number * 10 + repeat % 10)

    consumers = Workers(queue, work, 10, thread_name="w")
    consumers.start()
    producers = [InThread(lambda number=number: produce(number)) for number in range(50)]
    for producer in producers:
        producer.result()
    eventually(lambda: len(seen) == 500)
    assert consumers.stop(60)
    queue.add(-1)
    assert shared == []
    assert seen == set(range(500))
    assert threads <= {f"w-{number}" for number in range(10)}


def test_shutdown_wakes_every_waiting_worker(queue: Queue[str], clock: FakeClock) -> None:
    workers = [InThread(queue.get) for _ in range(3)]
    clock.wait_for_waiters(3, timed=False)
    queue.shut_down(0)
    for worker in workers:
        with pytest.raises(ShutDown, match="jobs"):
            worker.result()


def test_a_drain_waits_until_all_work_is_done_or_its_time_has_passed(clock: FakeClock) -> None:
    queue: Queue[str] = DelayingQueue(clock=clock)
    begin(queue, "foo")
    begin(queue, "bar")
    draining = InThread(lambda: queue.shut_down(timeout=30))
    clock.pass_time(29)
    clock.wait_for_waiters(1)
    assert draining.running
    clock.advance(1)
    assert draining.result() is False
    draining = InThread(queue.shut_down)
    clock.wait_for_waiters(1, timed=False)
    queue.done("foo")
    assert draining.running
    queue.done("bar")
    assert draining.result() is True
