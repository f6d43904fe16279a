"""Waits in the main thread for items in a queue. Signal handlers and other threads put items into the queue.

Python runs a signal handler when its main thread next executes bytecode. The kernel may deliver a signal to another
thread, or shortly before the main thread begins to wait. Such a signal doesn't interrupt the wait of the main thread.
So this module waits with a timeout. Without a timeout, the process would react to such a SIGTERM only when a second
signal comes.
"""

from __future__ import annotations

import queue

_POLL_SECONDS = 0.5  # seconds; the maximum delay until a signal is noticed


def next_item(items: queue.SimpleQueue[str]) -> str:
    """Take the next item.

    Wait for an item without a time limit. Signal handlers may put items into the queue, even while they interrupt this
    function.
    """
    while True:
        try:
            return items.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue
