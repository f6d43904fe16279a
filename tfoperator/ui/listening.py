"""Notifies the streams of pages about changes. Any thread may notify. A stream reads many changes at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ChangeListener:
    """The keys of jobs that have changed since the last `take`. Any thread may add a key; only the loop reads them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = asyncio.Event()
        self._lock = threading.Lock()  # guards _keys
        self._keys: set[str] = set()

    def tell(self, key: str) -> None:
        """Add the key of a change, and wake the event loop, if the loop still runs. Any thread may call it."""
        with self._lock:
            first = not self._keys
            self._keys.add(key)
        if first:
            try:
                self._loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:  # the loop is closed
                return

    async def wait(self, seconds: float) -> None:
        """Wait until there is a change, for at most this many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def take(self) -> set[str]:
        """Return the keys of the changes since the last call."""
        with self._lock:
            keys, self._keys = self._keys, set()
            self._changed.clear()
        return keys


class Listeners:
    """All listeners of a server; each stream of a page has a listener. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _all
        self._all: set[ChangeListener] = set()

    def __bool__(self) -> bool:
        """Return whether there is a listener."""
        with self._lock:
            return bool(self._all)

    @contextmanager
    def listening(self) -> Iterator[ChangeListener]:
        """Yield a new listener for the running event loop. At the end of the `with` block, remove it.

        The listener gets the keys of changes, such as `namespace/name` of a job. A change that belongs to no object has
        the key "".
        """
        listener = ChangeListener(asyncio.get_running_loop())
        with self._lock:
            self._all.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._all.discard(listener)

    def tell(self, *keys: str) -> None:
        """Add the keys of changes to all listeners."""
        with self._lock:
            listeners = tuple(self._all)
        for listener in listeners:
            for key in keys:
                listener.tell(key)
