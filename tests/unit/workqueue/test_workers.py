import threading

from tests.support.threads import InThread
from tfoperator.workqueue import Workers
from tfoperator.workqueue.queue import Queue


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
