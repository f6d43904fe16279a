"""Notifies the streams of the page when objects have changed.

Any thread may report a change. A stream then takes all changes since its last read together.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ChangeListener:
    """Collects the keys of changes until a stream takes the keys.

    Any thread may add a key. Only the thread of the event loop may call `wait` and `take`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = asyncio.Event()
        self._lock = threading.Lock()  # guards _keys
        self._keys: set[str] = set()

    def tell(self, key: str) -> None:
        """Add the key of a change, and wake the event loop if it still runs. Any thread may call this method."""
        with self._lock:
            first = not self._keys
            self._keys.add(key)
        if first:
            try:
                self._loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:  # the loop is closed
                return

    async def wait(self, seconds: float) -> None:
        """Wait until there is a change, but at most this many seconds."""
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
    """The listeners of all streams. Each stream has a listener of its own. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _all
        self._all: set[ChangeListener] = set()

    def __bool__(self) -> bool:
        """Return whether there is a listener."""
        with self._lock:
            return bool(self._all)

    @contextmanager
    def listening(self) -> Iterator[ChangeListener]:
        """Yield a new listener for the running event loop. At the end of the `with` block, remove the listener.

        The listener gets the key of each change, such as the `namespace/name` of a changed job. A change that belongs
        to no object has the key "".
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
