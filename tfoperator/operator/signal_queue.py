"""Waiting in the main thread for what signal handlers and other threads put into a queue.

Python runs a signal handler when its main thread next executes bytecode. A signal that the kernel hands to another
thread, or that comes while the main thread is about to wait, doesn't end that wait: one without a timeout
would sleep through a SIGTERM until somebody sends a second one.
"""

from __future__ import annotations

import queue

_PAUSE = 0.5  # seconds; how late a signal may be noticed in the worst case


def next_item(items: queue.SimpleQueue[str]) -> str:
    """Take the next item, however long that takes. Signal handlers may put one, even those that interrupt this."""
    while True:
        try:
            return items.get(timeout=_PAUSE)
        except queue.Empty:
            continue
