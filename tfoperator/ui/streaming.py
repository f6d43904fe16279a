"""Functions for the page's streams. A stream is a response that consists of lines of JSON.

Several producers can send lines to the same stream. If there are no changes, a stream sends a line every 10 s. So the
page can detect a broken connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.ui.listening import ChangeListener

Put = Callable[[bytes], Awaitable[None]]
Producer = Callable[[Put], Coroutine[Any, Any, None]]
"""A coroutine function that sends lines with `put`. `put` waits until the client has received the previous lines."""

MAX_TEXT = 4000
"""A page gets at most this many characters of a text, such as a message."""
HEARTBEAT = 10.0
"""If there was no change for this many seconds, a stream sends its status again."""
_GATHER_SECONDS = 0.2
"""After a change, a stream waits this many seconds for further changes, and then sends all changes together."""


async def merged(producers: Sequence[Producer]) -> AsyncGenerator[bytes, None]:
    """Run several producers, and yield the lines that they send.

    As soon as any of the producers ends, cancel the other producers, and end the stream. If the producer has ended with
    an error, raise this error.
    """
    loop = asyncio.get_running_loop()
    messages: asyncio.Queue[bytes] = asyncio.Queue(1)
    tasks = [loop.create_task(produce(messages.put)) for produce in producers]
    ended = asyncio.Event()
    for task in tasks:
        task.add_done_callback(lambda _: ended.set())
    waits = loop.create_task(ended.wait())
    take = loop.create_task(messages.get())
    try:
        while not ended.is_set():
            await asyncio.wait((take, waits), return_when=asyncio.FIRST_COMPLETED)
            if take.done():
                yield take.result()
                take = loop.create_task(messages.get())
        for task in tasks:
            if task.done():
                task.result()
    finally:
        started: list[asyncio.Task[Any]] = [*tasks, waits, take]
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


async def next_changes(listener: ChangeListener, seconds: float = HEARTBEAT, of: Set[str] = frozenset()) -> set[str]:
    """Wait for changes, but at most `seconds`. Return the keys of the changes, or an empty set if there are no changes.

    With `of`, drop changes that contain no key of `of`, and wait for the rest of the time. Changes that contain such a
    key are returned with all their keys.
    """
    clock = asyncio.get_running_loop()
    end = clock.time() + seconds
    while True:
        await listener.wait(max(0.0, end - clock.time()))
        await asyncio.sleep(_GATHER_SECONDS)
        changed = listener.take()
        if not of or changed & of:
            return changed
        if clock.time() >= end:
            return set()


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message of a stream as a line of JSON.

    A stream sends its status periodically. The status is `{"synced": ..., "problems": {...}}`. `synced` is true if the
    stream has sent all data. `problems` contains the reason for each kind of objects that can't be read.
    """
    return msgspec.json.encode(message) + b"\n"


def short(text: str) -> str:
    """Return the text, or if it is longer than `MAX_TEXT` characters, its beginning and ` ...`."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."


def seconds(moment: datetime | None) -> float | None:
    """Convert a time into seconds since 1970, because all times in the data for the page have this unit.

    Return None for None.
    """
    return None if moment is None else moment.timestamp()
