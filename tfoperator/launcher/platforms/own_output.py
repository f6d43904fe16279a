"""What a class prints, told from what others print in the same process at the same time.

While a class runs, `sys.stdout` and `sys.stderr` look at a context variable: what is written where it is set, in the
class's own thread, in its coroutines and in threads that are given its context, goes to the class's log line by line.
Everything else, also of a thread that the class has started by itself, goes on as before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

_LONGEST_LINE = 64 << 10
"""Characters after which a line is cut in two: output without line ends must not be kept in memory."""
_STREAMS = ("stdout", "stderr")


class _Lines:
    """Puts lines together, of one stream, and hands them over. Thread-safe: a context may be several threads'."""

    def __init__(self, log: Callable[[str], object]) -> None:
        self._log = log
        # Guards _rest. A handler of a signal, or a destructor, may print while its own thread has it.
        self._lock = threading.RLock()
        self._rest = ""

    def add(self, text: str) -> None:
        """Hand over the lines that have come to their end."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            whole = [piece for line in lines for piece in _cut(line)]
            *more, self._rest = _cut(self._rest)
        self._hand_over(whole + more)

    def end(self) -> None:
        """Hand over what has no end."""
        with self._lock:
            rest, self._rest = self._rest, ""
        self._hand_over([rest] if rest else [])

    def _hand_over(self, lines: Iterable[str]) -> None:
        own = _own.set(None)  # whoever gets a line may print it
        try:
            for line in lines:
                self._log(line)
        finally:
            _own.reset(own)


_own: ContextVar[dict[str, _Lines] | None] = ContextVar("own_output", default=None)


def _cut(line: str) -> list[str]:
    return [line[start : start + _LONGEST_LINE] for start in range(0, len(line), _LONGEST_LINE)] or [""]


class _Switch:
    """In the place of a stream: what is not a class's own goes to the stream, and so does every other question."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream

    def write(self, text: str) -> int:
        own = _own.get()
        if own is None:
            return self._stream.write(text)
        own[self._name].add(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Switches:
    """Both streams are switched while anybody needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards what follows
        self._users = 0
        self._before: dict[str, TextIO] = {}
        self._switches: dict[str, _Switch] = {}

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                there = {name: getattr(sys, name) for name in _STREAMS}
                self._before = {name: stream for name, stream in there.items() if stream is not None}
                self._switches = {name: _Switch(name, stream) for name, stream in self._before.items()}
                for name, switch in self._switches.items():
                    setattr(sys, name, cast(TextIO, switch))

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for name, stream in self._before.items():
                    # Somebody else may have put another stream there meanwhile, for good.
                    if getattr(sys, name) is self._switches[name]:
                        setattr(sys, name, stream)


_switches = _Switches()


@contextmanager
def own_output(log: Callable[[str], object]) -> Iterator[None]:
    """Have `log` called with each line that is printed inside, without its end, as soon as it is whole."""
    own = {name: _Lines(log) for name in _STREAMS}
    _switches.enter()
    token = _own.set(own)
    try:
        yield
    finally:
        _own.reset(token)
        _switches.leave()
        for lines in own.values():
            lines.end()
