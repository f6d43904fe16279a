"""Several attempts at one call, with pauses between them.

Loops of their own are those that decide anew before each attempt (leases, journals, locks), those that follow something
(watches, logs, preflight), and the requests of a session, of which nearly all need one attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def retry(
    call: Callable[[], T],
    *,
    attempts: int,
    worth_it: Callable[[Exception], bool],
    pause: Callable[[int, Exception], object],
) -> T:
    """Return what `call` returns; it is called again after an error that is worth it, `attempts` times in all.

    `pause(failed, error)` is called before each further attempt, with the number of those that have failed (from 1) and
    the last error: it waits, and may raise to end. The last error of `call` is raised as it is.
    """
    for failed in range(1, attempts):
        try:
            return call()
        except Exception as error:
            if not worth_it(error):
                raise
            last = error
        pause(failed, last)
    return call()
