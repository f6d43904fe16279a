"""Waits in the main thread for items that signal handlers and other threads put into a queue.

Python runs a signal handler when its main thread next executes bytecode. A signal that the kernel hands to another
thread, or that comes while the main thread is about to wait, doesn't end that wait: a wait without a timeout would
sleep through a SIGTERM until a second signal comes.
"""

from __future__ import annotations

import queue

_POLL_SECONDS = 0.5  # seconds; the maximum delay until a signal is noticed


def next_item(items: queue.SimpleQueue[str]) -> str:
    """Take the next item, without a time limit. Signal handlers may put items, even handlers that interrupt this."""
    while True:
        try:
            return items.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue
