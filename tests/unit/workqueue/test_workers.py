import threading

from tests.support.eventually import eventually
from tests.support.threads import InThread
from tfoperator.workqueue import Workers
from tfoperator.workqueue.queue import Queue


def test_every_item_is_processed_and_the_threads_have_their_name() -> None:
    queue = Queue[str]()
    seen: dict[str, str] = {}
    workers = Workers(queue, lambda item: seen.update({item: threading.current_thread().name}), 2, thread_name="w")
    workers.start()
    for number in range(20):
        queue.add(f"item-{number}")
    eventually(lambda: len(seen) == 20, what="20 items")
    assert workers.stop(60)
    assert set(seen.values()) <= {"w-0", "w-1"}


def test_stopping_lets_a_running_item_finish_and_starts_no_other() -> None:
    entered, release = threading.Event(), threading.Event()
    finished: list[str] = []

    def process(item: str) -> None:
        entered.set()
        assert release.wait(60)
        finished.append(item)

    queue = Queue[str]()
    workers = Workers(queue, process, 1, thread_name="w")
    workers.start()
    queue.add("first")
    assert entered.wait(60)
    queue.add("second")
    assert not workers.stop(0)
    stopping = InThread(lambda: workers.stop(60))
    release.set()
    assert stopping.result() is True
    assert finished == ["first"]
