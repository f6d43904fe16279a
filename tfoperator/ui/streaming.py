"""A page's stream: lines of JSON, from several producers, with a periodic line when there is no news.

A line without news keeps the connection alive, and shows the page that the connection is alive.
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
"""Sends messages by `put`, which waits until the page has taken the previous messages."""

MAX_TEXT = 4000
"""Characters of a message or a value that a page gets."""
HEARTBEAT = 10.0
"""Seconds without news after which a page gets a line without news."""
_GATHER_SECONDS = 0.2
"""Seconds for which changes are gathered before they are sent."""


async def merged(producers: Sequence[Producer]) -> AsyncGenerator[bytes, None]:
    """Yield the messages of several producers. The first to end ends the stream and the others; its error is raised."""
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
    """Return changes, gathered for a moment, by default any, or of these keys; empty if none comes in these seconds."""
    while True:
        await listener.wait(seconds)
        await asyncio.sleep(_GATHER_SECONDS)
        if not (changed := listener.take()) or not of or changed & of:
            return changed


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message of a stream: a line of JSON.

    The periodic message has `synced`, whether all is known, and `problems`, by the kinds that can't be read.
    """
    return msgspec.json.encode(message) + b"\n"


def short(text: str) -> str:
    """Return a text that a page gets: its beginning, if it is longer than `MAX_TEXT`."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."


def seconds(moment: datetime | None) -> float | None:
    """Return a time as a page gets it: in seconds since 1970."""
    return None if moment is None else moment.timestamp()
