"""Pages that want to hear of changes: told by threads, read in the event loop, many changes as one."""

from __future__ import annotations

import asyncio
import threading


class ChangeListener:
    """Keys of what has changed since somebody looked; used in one event loop, told from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._changed = asyncio.Event()
        self._lock = threading.Lock()  # guards _keys
        self._keys: set[str] = set()

    def tell(self, key: str) -> None:
        """Something has changed. From any thread; nothing happens if the loop has ended."""
        with self._lock:
            first = not self._keys
            self._keys.add(key)
        if first:
            try:
                self._loop.call_soon_threadsafe(self._changed.set)
            except RuntimeError:  # the loop is closed
                return

    async def wait(self, seconds: float) -> None:
        """Return when something has changed, or after that many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def take(self) -> set[str]:
        """What has changed since the last time."""
        with self._lock:
            keys, self._keys = self._keys, set()
            self._changed.clear()
        return keys


class Listeners:
    """Who is to be told. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _all
        self._all: set[ChangeListener] = set()

    def __bool__(self) -> bool:
        """Whether anybody listens."""
        with self._lock:
            return bool(self._all)

    def listen(self, loop: asyncio.AbstractEventLoop) -> ChangeListener:
        """Be told the keys of what changes, and "" when it is something else, until `unlisten`."""
        listener = ChangeListener(loop)
        with self._lock:
            self._all.add(listener)
        return listener

    def unlisten(self, listener: ChangeListener) -> None:
        """Be told no more. Idempotent."""
        with self._lock:
            self._all.discard(listener)

    def tell(self, *keys: str) -> None:
        """Tell everybody."""
        with self._lock:
            listeners = tuple(self._all)
        for listener in listeners:
            for key in keys:
                listener.tell(key)
