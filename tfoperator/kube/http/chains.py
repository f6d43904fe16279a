"""Calls that follow each other, and what becomes of them: what a multiplexer has in its hands."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tfoperator.kube.errors import KubeError
from tfoperator.kube.http.answer import Response
from tfoperator.kube.http.session import Call

Result = Response | KubeError
"""What became of a call; the Response is a 2xx."""


class Batch:
    """Chains that somebody waits for together."""

    def __init__(self, chains: int) -> None:
        self.left = chains  # changed under the multiplexer's lock
        self.ended = threading.Event()


class Chain:
    """Calls, and what became of the first of them. It is only ever in the hands of one thread.

    Raises ValueError if there are none.
    """

    __slots__ = ("batch", "began", "call", "calls", "is_over", "results")

    def __init__(self, calls: Sequence[Call], batch: Batch) -> None:
        if not calls:
            raise ValueError("a chain has no calls")
        self.calls = calls
        self.results: list[Result] = []
        self.batch = batch
        self.began = 0.0  # the call under way, on the performance counter
        self.call = calls[0]
        """The one under way, or the next; the last one of a chain that is over."""
        self.is_over = False
        """Whether all were made, or one has failed."""

    def take(self, result: Result) -> bool:
        """What became of the call under way; False for a chain that is over, which nothing changes."""
        if self.is_over:
            return False
        self.results.append(result)
        if isinstance(result, KubeError) or len(self.results) == len(self.calls):
            self.is_over = True
        else:
            self.call = self.calls[len(self.results)]
        return True

    @property
    def what(self) -> str:
        """The call under way, for people."""
        return self.call.what
