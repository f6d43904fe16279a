"""Proof that whatever a test started has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.eventually import eventually


@contextmanager
def no_threads_left(within: float = 5.0) -> Iterator[None]:
    """Fail if threads that were started inside the block are still alive `within` seconds after it."""
    before = set(threading.enumerate())
    yield

    def ended() -> bool:
        left = [thread.name for thread in threading.enumerate() if thread not in before]
        assert not left, f"threads still running: {left}"
        return True

    eventually(ended, within=within, what="every thread started by the test has ended")
