"""Notifies pages about changes. Any thread may notify. The event loop reads many changes at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ChangeListener:
    """The keys of the changes since the last read. Only one event loop reads them, and any thread may add a key."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = asyncio.Event()
        self._lock = threading.Lock()  # guards _keys
        self._keys: set[str] = set()

    def tell(self, key: str) -> None:
        """Record a change. Any thread may call it. If the loop has ended, it does nothing."""
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
        """Return the changes since the last call."""
        with self._lock:
            keys, self._keys = self._keys, set()
            self._changed.clear()
        return keys


class Listeners:
    """The listeners that are notified of changes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _all
        self._all: set[ChangeListener] = set()

    def __bool__(self) -> bool:
        """Return whether there is a listener."""
        with self._lock:
            return bool(self._all)

    @contextmanager
    def listening(self) -> Iterator[ChangeListener]:
        """Add a listener for the duration of the block, in the running event loop.

        The listener gets the keys of changes. A change that belongs to no job has the key "".
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
        """Notify all listeners."""
        with self._lock:
            listeners = tuple(self._all)
        for listener in listeners:
            for key in keys:
                listener.tell(key)
