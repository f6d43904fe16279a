"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], *, within: float = 60.0, every: float = 0.01, what: str = "") -> T:
    """Call `probe` until it returns something true, and return that; AssertionError after `within` seconds.

    By default that is long enough for any machine, however busy: what is in time costs nothing.

    A probe may raise AssertionError to explain what is still missing; the last explanation is reported.
    """
    end = time.monotonic() + within
    last: object = None
    while True:
        try:
            last = result = probe()
            if result:
                return result
        except AssertionError as error:
            last = error
        if time.monotonic() >= end:
            raise AssertionError(f"not within {within} s: {what or probe}; last seen: {last!r}")
        time.sleep(every)


def eventually_holds(check: Callable[[], object], *, within: float = 60.0, every: float = 0.01, what: str = "") -> None:
    """Call `check` until it raises no AssertionError any more; the same after `within` seconds."""
    eventually(lambda: (check(), True), within=within, every=every, what=what or str(check))
