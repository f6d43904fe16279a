"""What a page is told as it happens: lines of JSON, first what there is, then what changes.

A page has one stream. `jobs` is the list; `job` is one job, with the logs of some of its replicas if it asks for them.
A line without news keeps the connection alive, and tells a page that it still is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from tfoperator.api.names import replica_name
from tfoperator.sdk.states import pod_order
from tfoperator.ui.board import Board
from tfoperator.ui.listening import Listener
from tfoperator.ui.logs import LogFeed
from tfoperator.ui.objects import SeenJob
from tfoperator.ui.queues import Queues
from tfoperator.ui.usage import Usage
from tfoperator.ui.views import encode, event_rows, job_detail, job_row, metric_curves, replica_rows

Put = Callable[[bytes], Awaitable[None]]
Producer = Callable[[Put], Coroutine[Any, Any, None]]
"""Says something now and then, by `put`, which waits until the page has taken what came before."""

HEARTBEAT = 10.0
"""Seconds without news after which a page is told that there are none."""
_GATHER = 0.2
"""Seconds for which changes are gathered before they are sent."""
_SKEW = 60.0
"""Seconds by which the clocks of nodes, which date samples, may be behind that of the API server, which dates jobs."""
_AT_ONCE = 250
"""Jobs per line, and replicas: between two of them others have their turn."""


async def job_list(board: Board, queues: Queues) -> AsyncGenerator[bytes, None]:
    """Every job, and on: `{"jobs": [...]}`, then `{"synced": true}`, `{"jobs": [...], "gone": [...]}`."""
    listener = board.listeners.listen(asyncio.get_running_loop())
    try:
        yield _status(board)
        known: set[str] = set()
        complete = False
        changed = {seen.metadata.key for seen in board.jobs()}
        while True:
            for keys in _batches(sorted(changed - {""})):
                found = filter(None, map(board.job, keys))
                rows = [job_row(seen, queues.get(seen.metadata.uid)) for seen in found]
                there = {row["key"] for row in rows}
                gone = [key for key in keys if key not in there and key in known]
                known = (known | there) - set(gone)
                if rows or gone:
                    yield encode({"jobs": rows, "gone": gone})
                await asyncio.sleep(0)
            if not changed or "" in changed or complete != board.synced:
                complete = board.synced
                yield _status(board)
            changed = await next_changes(listener)
    finally:
        board.listeners.unlisten(listener)


async def one_job(
    board: Board, usage: Usage, queues: Queues, key: str, feed: LogFeed | None, logs: Sequence[str]
) -> AsyncGenerator[bytes, None]:
    """A job by `namespace/name`: its parts, each when it has changed. With a feed also the logs of those replicas."""
    listener = board.listeners.listen(asyncio.get_running_loop())
    producers: list[Producer] = [lambda put: _parts(board, usage, queues, key, feed, logs, listener, put)]
    if feed is not None:
        producers.append(lambda put: _lines(feed, put))
    try:
        async with aclosing(merged(producers)) as lines:
            async for line in lines:
                yield line
    finally:
        board.listeners.unlisten(listener)
        if feed is not None:
            feed.close()


async def merged(producers: Sequence[Producer]) -> AsyncGenerator[bytes, None]:
    """What several say, as one stream. It ends with the first of them, whose error is raised, and ends the others."""
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
        for one in started:
            one.cancel()
        await asyncio.gather(*started, return_exceptions=True)


async def _parts(
    board: Board,
    usage: Usage,
    queues: Queues,
    key: str,
    feed: LogFeed | None,
    logs: Sequence[str],
    listener: Listener,
    put: Put,
) -> None:
    sent: dict[str, bytes] = {}
    sampled: dict[str, float] = {}
    rounds = -1
    uid = ""
    while True:
        await put(_status(board))
        seen = board.job(key)
        if seen is not None and seen.metadata.uid != uid:
            # Another job of this name: the page forgets the one before, also what looks the same.
            uid = seen.metadata.uid
            sent.clear()
        for name, value in _sections(board, queues, seen).items():
            line = encode({name: value})
            if sent.get(name) != line:
                sent[name] = line
                await put(line)
            await asyncio.sleep(0)
        if seen is not None and usage.rounds != rounds:
            rounds = usage.rounds
            await put(encode({"usage": _samples(board, usage, seen, sampled), "problem": usage.problem}))
        if seen is not None and feed is not None:
            pods = [(replica_name(pod), pod) for pod in sorted(board.pods(seen), key=pod_order)]
            feed.follow([(name, pod) for name, pod in pods if name in logs])
        while True:
            changed = await next_changes(listener)
            if not changed or changed & {key, ""}:
                break


async def _lines(feed: LogFeed, put: Put) -> None:
    while True:
        for batch in await feed.take(HEARTBEAT):
            await put(encode({"log": msgspec.to_builtins(batch)}))


def _sections(board: Board, queues: Queues, seen: SeenJob | None) -> Mapping[str, Any]:
    if seen is None:
        return {"job": None} if board.synced else {}
    uid = seen.metadata.uid
    return {
        "job": job_detail(seen, queues.get(uid)),
        "replicas": replica_rows(seen.job, board.pods(seen), board.history.pods(uid)),
        "events": event_rows(board.events(seen)),
        "curves": metric_curves(board.history.metrics(uid)),
    }


def _samples(board: Board, usage: Usage, seen: SeenJob, sampled: dict[str, float]) -> dict[str, list[Any]]:
    """Per replica what has been sampled since the last time, of which `sampled` has the time."""
    found = {}
    made = seen.metadata.creation_timestamp
    # Samples are known by the names of pods, which another job of this name may have had, too.
    begin = made.timestamp() - _SKEW if made is not None else 0.0
    for pod in board.pods(seen):
        meta = pod.metadata
        new = usage.samples(meta.namespace, meta.name, max(begin, sampled.get(meta.name, 0.0)))
        if new:
            sampled[meta.name] = new[-1].time
            found[replica_name(pod)] = new
    return found


async def next_changes(listener: Listener, seconds: float = HEARTBEAT) -> set[str]:
    """What has changed, gathered for a moment; empty if nothing has for so many seconds."""
    await listener.wait(seconds)
    await asyncio.sleep(_GATHER)
    return listener.take()


def encode_status(status: Mapping[str, Any]) -> bytes:
    """What every stream says now and then: `synced`, whether all is known, and `problems`, by what can't be read."""
    return encode(status)


def _status(board: Board) -> bytes:
    return encode_status({"synced": board.synced, "problems": board.health.problems})


def _batches(keys: Sequence[str]) -> list[Sequence[str]]:
    return [keys[i : i + _AT_ONCE] for i in range(0, len(keys), _AT_ONCE)]
