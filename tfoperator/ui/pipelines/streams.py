"""The page's streams of runs: lines of JSON, first the present state, then changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tfoperator.ui.pipelines.board import RunBoard
from tfoperator.ui.pipelines.step_log import LogPiece, LogTail
from tfoperator.ui.problems import CannotRead, NotThere
from tfoperator.ui.streaming import HEARTBEAT, Put, encode, encode_status, next_changes

T = TypeVar("T")

InThread = Callable[[Callable[[], T]], Awaitable[T]]


async def run_list(board: RunBoard) -> AsyncGenerator[bytes, None]:
    """Yield every run, then changes: `{"runs": [...]}`, then `{"synced": true}`, `{"runs": [...], "gone": [...]}`."""
    listener = board.listeners.listen(asyncio.get_running_loop())
    try:
        known: dict[str, Any] = {}
        while True:
            status, rows = board.status, board.rows
            changed = [row for key, row in rows.items() if known.get(key) != row]
            gone = [key for key in known if key not in rows]
            if changed or gone:
                yield encode({"runs": changed, "gone": gone})
            known = dict(rows)
            yield encode_status(status)
            await next_changes(listener)
    finally:
        board.listeners.unlisten(listener)


async def run_parts(
    board: RunBoard, key: str, read: Callable[[], Awaitable[Mapping[str, Any]]], put: Put, *, pause: float
) -> None:
    """Send the parts of a run, each when it has changed. `read` returns them, among them `goesOn`, which is not sent.

    An unfinished run is read every `pause` seconds: attempts and containers are in files without notification.
    """
    listener = board.listeners.listen(asyncio.get_running_loop())
    sent: dict[str, bytes] = {}
    try:
        while True:
            problems: dict[str, str] = {}
            parts: dict[str, Any] = {}
            try:
                parts = dict(await read())
            except NotThere:
                parts = {"run": None}
            except CannotRead as error:
                problems["pipelines"] = str(error)
            goes_on = parts.pop("goesOn", False)
            for name, value in parts.items():
                line = encode({name: value})
                if sent.get(name) != line:
                    sent[name] = line
                    await put(line)
            await put(encode_status({"synced": True, "problems": problems}))
            while True:
                changed = await next_changes(listener, pause if goes_on else HEARTBEAT)
                if not changed or changed & {key, ""}:
                    break
    finally:
        board.listeners.unlisten(listener)


async def log_lines(step: str, tail: LogTail, in_thread: InThread[LogPiece], put: Put) -> None:
    """Send the log of a step, in the form of replicas' logs; each line once, even to a slow page."""
    try:
        while True:
            piece = await in_thread(tail.read)
            if piece.lines or piece.afresh:
                await put(encode({"log": {"step": step, "lines": piece.lines, "afresh": piece.afresh}}))
            else:
                await asyncio.sleep(tail.pause)
    except CannotRead as error:
        await put(encode({"log": {"step": step, "problem": str(error)}}))
        await asyncio.Event().wait()  # the rest of the page continues
    finally:
        tail.close()
