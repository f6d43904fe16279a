"""Calls in threads of their own, and proof that whatever a test started has ended."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.eventually import eventually_holds


@contextmanager
def no_threads_left(within: float = 60.0, *, but: tuple[str, ...] = ()) -> Iterator[None]:
    """Fail if threads that were started inside the block are still alive `within` seconds after it.

    Those whose names begin as in `but` belong to something that was there before.
    """
    before = set(threading.enumerate())
    yield

    def ended() -> None:
        new = [thread.name for thread in threading.enumerate() if thread not in before]
        left = [name for name in new if not name.startswith(but)]
        assert not left, f"threads still running: {left}"

    eventually_holds(ended, within=within, what="every thread started by the test has ended")


@pytest.fixture(autouse=True)
def every_thread_ends() -> Iterator[None]:
    """For each test of a folder whose conftest imports this."""
    with no_threads_left():
        yield


class InThread:
    """Runs a call in a thread; `result()` joins it and gives back what it returned or raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._outcome: list[Any] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._outcome.append(call())
        except BaseException as error:  # noqa: BLE001 - it is raised again in result()
            self._error.append(error)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def join(self, within: float) -> None:
        self._thread.join(within)

    def result(self, within: float = 60.0) -> Any:
        self.join(within)
        assert not self._thread.is_alive(), "the call has not returned"
        if self._error:
            raise self._error[0]
        return self._outcome[0]


def run_at_once(*calls: Callable[[], Any], within: float = 60.0) -> None:
    """Make all these calls at the same time, and wait for their ends. Raises what the first that failed raised."""
    for call in [InThread(call) for call in calls]:
        call.result(within)
