from __future__ import annotations

import queue
import signal
import threading

from tfoperator.operator.happenings import next_happening


def test_a_signal_that_another_thread_is_given_is_noticed() -> None:
    happenings: queue.SimpleQueue[str] = queue.SimpleQueue()
    before = signal.signal(signal.SIGUSR1, lambda *_: happenings.put("signal"))
    # The kernel may choose any thread. This one is not the thread that waits, which therefore is not woken by it.
    other = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1))
    try:
        other.start()
        assert next_happening(happenings) == "signal"
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)
