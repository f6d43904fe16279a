import queue
import signal
import threading

from tfoperator.operator.signal_queue import next_item


def test_a_signal_that_another_thread_is_given_is_noticed() -> None:
    items: queue.SimpleQueue[str] = queue.SimpleQueue()
    before = signal.signal(signal.SIGUSR1, lambda *_: items.put("signal"))
    # The kernel may choose any thread. This thread is not the thread that waits, which therefore does not wake up.
    other = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1))
    try:
        other.start()
        assert next_item(items) == "signal"
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)
