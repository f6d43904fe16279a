"""The log of a container: a test writes it, and readers follow it. All fakes of nodes serve this log."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


def _never() -> bool:
    return False


class ContainerLog:
    """`write` adds to the log, `end` ends it. The times of the lines are made up, a millisecond apart. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards the rest
        self._text = b""
        self._ended = False
        self.asked: list[str] = []
        """The `since` of each reader."""

    def write(self, text: str | bytes) -> None:
        with self._changed:
            self._text += text.encode() if isinstance(text, str) else text
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def read(
        self,
        *,
        follow: bool = False,
        tail_lines: int | None = None,
        since: str = "",
        times: bool = False,
        stopped: Callable[[], bool] = _never,
    ) -> Iterator[bytes]:
        """Return the log as a kubelet sends it. A reader who follows waits for more until the end, or until `stopped`.

        With `since` or `times` the reader gets whole lines: those from this time on, or all with their times.
        """
        with self._changed:
            self.asked.append(since)
            lines = self._text.splitlines(keepends=True)
            position = 0 if tail_lines is None else sum(map(len, lines[: max(len(lines) - tail_lines, 0)]))
        return self._follow(position, follow, datetime.fromisoformat(since) if since else START, times, stopped)

    def _follow(
        self, position: int, follow: bool, since: datetime, times: bool, stopped: Callable[[], bool]
    ) -> Iterator[bytes]:
        whole_lines, over = times or since > START, False
        while not over:
            with self._changed:
                while not (over := self._ended or not follow or stopped()) and self._end(whole_lines) <= position:
                    self._changed.wait(0.02)
                end = len(self._text) if over else self._end(whole_lines)
                before, data, position = self._text[:position], self._text[position:end], end
            yield _timed(data, before.count(b"\n"), since, times) if whole_lines else data

    def _end(self, whole_lines: bool) -> int:
        return self._text.rfind(b"\n") + 1 if whole_lines else len(self._text)


def _timed(data: bytes, number: int, since: datetime, times: bool) -> bytes:
    """Return the lines from this time on; the first line of the data is the log's line of this number."""
    timed = b""
    for index, line in enumerate(data.splitlines(keepends=True)):
        moment = START + timedelta(milliseconds=number + index)
        stamp = f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() if times else b""
        timed += stamp + line if moment >= since else b""
    return timed
