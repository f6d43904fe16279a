"""Follows a step's log in an object store, with an object for every few seconds of it: the last lines first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from tfoperator.pipeline import ObjectStoreError
from tfoperator.ui.pipelines.step_log import LogPiece
from tfoperator.ui.problems import CannotRead


class ObjectLogTail:
    """A `LogTail`. Each object has complete lines."""

    def __init__(
        self,
        keys: Callable[[str], Iterator[str]],
        get: Callable[[str], bytes],
        *,
        tail_lines: int,
        pause: float,
    ) -> None:
        """`keys` returns the names of the objects after one, in order."""
        self.pause = pause
        self._keys = keys
        self._get = get
        self._tail_lines = tail_lines
        self._last = ""
        self._begun = False
        self._closed = False
        self._waiting: deque[tuple[str, ...]] = deque()

    def close(self) -> None:
        """Stop reading. Idempotent."""
        self._closed = True

    def read(self) -> LogPiece:
        """Return the lines since the last call, one object at a time. Raises CannotRead."""
        if self._closed:
            return LogPiece()
        try:
            if not self._begun:
                self._begin()
            if self._waiting:
                return LogPiece(self._waiting.popleft())
            key = next(iter(self._keys(self._last)), "")
            if not key:
                return LogPiece()
            lines = self._lines(key)
        except ObjectStoreError as error:
            raise CannotRead(f"the log can't be read: {error}") from error
        self._last = key
        return LogPiece(lines)

    def _begin(self) -> None:
        """Read the last lines: from as many of the last objects as needed."""
        missing = self._tail_lines
        known = list(self._keys(""))
        for key in reversed(known):
            if missing <= 0:
                break
            lines = self._lines(key)[-missing:]
            missing -= len(lines)
            self._waiting.appendleft(lines)
        self._last = known[-1] if known else ""
        self._begun = True

    def _lines(self, key: str) -> tuple[str, ...]:
        text = self._get(key).decode(errors="replace")
        return tuple(text.removesuffix("\n").split("\n")) if text else ()
