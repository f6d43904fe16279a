"""Notification of pages about changes: from any thread, read in the event loop, many changes as one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ChangeListener:
    """Keys of the changes since the last read; read in one event loop, notified from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = asyncio.Event()
        self._lock = threading.Lock()  # guards _keys
        self._keys: set[str] = set()

    def tell(self, key: str) -> None:
        """Record a change. From any thread; does nothing if the loop has ended."""
        with self._lock:
            first = not self._keys
            self._keys.add(key)
        if first:
            try:
                self._loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:  # the loop is closed
                return

    async def wait(self, seconds: float) -> None:
        """Return when there is a change, or after that many seconds."""
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
    """The listeners of changes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _all
        self._all: set[ChangeListener] = set()

    def __bool__(self) -> bool:
        """Return whether there is a listener."""
        with self._lock:
            return bool(self._all)

    @contextmanager
    def listening(self) -> Iterator[ChangeListener]:
        """Add a listener during the block, in the running event loop. It gets the keys of changes, "" for others."""
        listener = ChangeListener(asyncio.get_running_loop())
        with self._lock:
            self._all.add(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._all.discard(listener)

    def tell(self, *keys: str) -> None:
        """Notify every listener."""
        with self._lock:
            listeners = tuple(self._all)
        for listener in listeners:
            for key in keys:
                listener.tell(key)
