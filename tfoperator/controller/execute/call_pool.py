"""Many API calls of one sync, in parallel but with slow start: 1, 2, 4, 8 ... at once.

Most failures (a quota, an admission webhook that is down) hit every call of a batch alike. Starting slowly, a job of
300 replicas that may not create any learns it from one refusal instead of 300. All syncs share one pool of threads,
so many busy jobs together don't overrun the API server either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import msgspec

R = TypeVar("R")
T = TypeVar("T")

_TURNS = 4
"""Calls per thread in a full batch: enough that waiting for its last one costs little, and few enough that the calls of
another job, which queue behind it, come soon."""


class Results(msgspec.Struct, Generic[R]):
    """What the calls returned, in their order; `skipped` are the positions that were never called."""

    done: list[R]
    skipped: range


class CallPool:
    """A bounded pool for API calls. Thread-safe; `close()` ends its threads."""

    def __init__(self, parallelism: int) -> None:
        """`parallelism` bounds the calls in flight from the pool; each caller's own thread makes one more."""
        if parallelism < 1:
            raise ValueError(f"parallelism must be 1 or more, is {parallelism}")
        self._parallelism = parallelism
        self._pool = ThreadPoolExecutor(parallelism, thread_name_prefix="api-call")

    def all(self, calls: Sequence[Callable[[], R]]) -> list[R]:
        """Make every call, in parallel from the first; returns what they return, in order.

        An exception of a call is raised, after all of them have ended.
        """
        if not calls:
            return []
        # The caller's thread works, too: a single call, the most frequent case, costs no change of threads.
        futures: list[Future[R]] = [self._pool.submit(call) for call in calls[1:]]
        try:
            first = calls[0]()
        finally:
            for future in futures:
                future.exception()
        return [first, *(future.result() for future in futures)]

    def in_growing_batches(
        self, items: Sequence[T], do: Callable[[Sequence[T]], list[R]], *, ok: Callable[[R], bool]
    ) -> Results[R]:
        """`do` what is to be done about 1, 2, 4 ... of the items; after a result that isn't `ok`, about no more."""
        done: list[R] = []
        size = 1
        while len(done) < len(items):
            batch = do(items[len(done) : len(done) + size])
            done += batch
            if not all(map(ok, batch)):
                break
            size = min(size * 2, _TURNS * self._parallelism)
        return Results(done, range(len(done), len(items)))

    def close(self) -> None:
        """Let the calls in flight end, drop those that wait, and join the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
