"""Repeating a read-modify-write whose object changed in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed, wait_random

from tfoperator.kube.errors import AlreadyExistsError, ConflictError

T = TypeVar("T")

_ATTEMPTS = 5
_DELAY = 0.010  # seconds; both as in client-go's DefaultRetry: conflicts are short races, not outages


def _is_conflict(error: BaseException) -> bool:
    # A taken name stays taken: only an outdated resourceVersion is worth another try.
    return isinstance(error, ConflictError) and not isinstance(error, AlreadyExistsError)


def retry_on_conflict(fn: Callable[[], T], *, sleep: Callable[[float], None] | None = None) -> T:
    """Call `fn` until it meets no `ConflictError`: at most 5 times, 10 ms (plus up to 10 %) apart.

    `fn` must read the object anew each time, change it and write it. The last conflict is raised as it is;
    any other error ends it at once.
    """
    retrying = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_fixed(_DELAY) + wait_random(0, _DELAY * 0.1),
        retry=retry_if_exception(_is_conflict),
        reraise=True,
    )
    return retrying.copy(sleep=sleep)(fn) if sleep else retrying(fn)
