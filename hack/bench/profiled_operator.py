"""The operator with each of its function calls counted: `python -m hack.bench.profiled_operator FILE FLAGS...`.

Nearly all of the operator's CPU is the interpreter's, about a microsecond a call, whichever function it is. So the
number of calls, by thread, shows the effect of a change; unlike milliseconds it hardly depends on what else a machine
does. The process takes four times as long for everything: its other figures mean nothing.
"""

from __future__ import annotations

import cProfile
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from tfoperator.operator.__main__ import main as operate

_SHOWN = 60
"""Functions of each thread."""

_ROOT = str(Path(__file__).resolve().parents[2]) + "/"


class Function(NamedTuple):
    """The cost of a function in all threads of one name: calls, and CPU seconds in itself and with all it called."""

    name: str
    calls: int
    own: float
    whole: float


class Calls:
    """Counts the calls of each thread that is started while `counting`. Only what has ended can be read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the list
        self._profiles: list[tuple[str, cProfile.Profile]] = []

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Raises RuntimeError where Python counts one thread at a time (3.12 and later)."""
        if sys.version_info >= (3, 12):
            raise RuntimeError("calls of several threads can be counted up to Python 3.11 only")
        threading.setprofile(self._begin)
        try:
            yield
        finally:
            threading.setprofile(None)

    def _begin(self, _frame: FrameType, _event: str, _argument: Any) -> None:
        """The first event of a thread: from here on its own profile has them all."""
        sys.setprofile(None)
        profile = cProfile.Profile(time.thread_time)
        with self._lock:
            self._profiles.append((threading.current_thread().name, profile))
        profile.enable()

    def by_thread(self) -> dict[str, list[Function]]:
        """The functions of each thread, those with most CPU first; threads that differ by a number are one."""
        sums: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0, 0.0, 0.0]))
        with self._lock:
            profiles = [*self._profiles]
        for thread, profile in profiles:
            functions = sums[re.sub(r"[-_]\d+$", "", thread)]
            for entry in profile.getstats():
                of = functions[_name(entry.code)]
                of[0] += entry.callcount
                of[1] += entry.inlinetime
                of[2] += entry.totaltime
        return {
            thread: sorted(
                (Function(name, int(calls), own, whole) for name, (calls, own, whole) in functions.items()),
                key=lambda function: -function.own,
            )
            for thread, functions in sums.items()
        }


def _name(code: Any) -> str:
    if isinstance(code, str):
        return code
    return f"{code.co_filename.removeprefix(_ROOT)}:{code.co_firstlineno} {code.co_name}"


def table(threads: dict[str, list[Function]]) -> str:
    """Calls by thread, and of each thread the functions that took most."""
    calls = {thread: sum(function.calls for function in functions) for thread, functions in threads.items()}
    order = sorted(threads, key=lambda thread: -calls[thread])
    lines = [f"{sum(calls.values()):10,} calls", *(f"{calls[thread]:10,} {thread}" for thread in order)]
    for thread in order:
        lines += ["", f"{thread}: calls, ms of CPU in the function, and with what it calls"]
        lines += [
            f"{function.calls:10,} {function.own * 1000:9.1f} {function.whole * 1000:9.1f}  {function.name}"
            for function in threads[thread][:_SHOWN]
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str], run: Callable[[Sequence[str]], int] = operate) -> int:
    """Run the operator with the flags behind the first argument, the file for the table; returns its exit code."""
    calls = Calls()
    with calls.counting():
        code = run(arguments[1:])
    target = Path(arguments[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(table(calls.by_thread()))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
