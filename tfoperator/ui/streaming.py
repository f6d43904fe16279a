"""The stream of a page: lines of JSON from several producers. If there are no changes, it sends a line periodically.

This periodic line keeps the connection alive, and shows the page that the connection is alive.
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
"""Sends messages by `put`. `put` waits until the page has taken the previous messages."""

MAX_TEXT = 4000
"""The maximum number of characters of a message or a value that a page gets."""
HEARTBEAT = 10.0
"""After this many seconds without a change, a page gets a periodic line."""
_GATHER_SECONDS = 0.2
"""Changes are collected for this many seconds before they are sent."""


async def merged(producers: Sequence[Producer]) -> AsyncGenerator[bytes, None]:
    """Yield the messages of several producers.

    When the first producer ends, the stream ends, and so do all producers. If that producer had an error, the error is
    raised.
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
    """Return changes, collected for a moment.

    With `of`, wait for a change of one of these keys. Return nothing if no change comes in `seconds`.
    """
    while True:
        await listener.wait(seconds)
        await asyncio.sleep(_GATHER_SECONDS)
        if not (changed := listener.take()) or not of or changed & of:
            return changed


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message of a stream as a line of JSON.

    The periodic message has `synced` (whether all data is known) and `problems` (by the kinds that can't be read).
    """
    return msgspec.json.encode(message) + b"\n"


def short(text: str) -> str:
    """Return the text that a page gets. If the text is longer than `MAX_TEXT`, it is only the beginning."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."


def seconds(moment: datetime | None) -> float | None:
    """Return a time in the form that a page gets: seconds since 1970."""
    return None if moment is None else moment.timestamp()
