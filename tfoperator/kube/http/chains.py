"""Calls that follow each other, and what becomes of them: what a multiplexer has in its hands."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tfoperator.kube.errors import KubeError
from tfoperator.kube.http.session import Call
from tfoperator.kube.http.transport import Response

Result = Response | KubeError
"""What became of a call; the Response is a 2xx."""


class Batch:
    """Chains that somebody waits for together."""

    def __init__(self, chains: int) -> None:
        self.left = chains  # changed under the multiplexer's lock
        self.ended = threading.Event()


class Chain:
    """Calls, and what became of the first of them. It is only ever in the hands of one thread."""

    __slots__ = ("batch", "began", "calls", "results")

    def __init__(self, calls: Sequence[Call], batch: Batch) -> None:
        self.calls = calls
        self.results: list[Result] = []
        self.batch = batch
        self.began = 0.0  # the call under way, on the performance counter

    @property
    def call(self) -> Call:
        """The one under way, or the next."""
        return self.calls[len(self.results)]

    @property
    def is_over(self) -> bool:
        """Whether all were made, or one has failed."""
        return bool(self.results) and (len(self.results) == len(self.calls) or isinstance(self.results[-1], KubeError))

    def take(self, result: Result) -> bool:
        """What became of the call under way; False for a chain that is over, which nothing changes."""
        if self.is_over:
            return False
        self.results.append(result)
        return True

    @property
    def what(self) -> str:
        """The call under way, for people; the last one of a chain that is over."""
        return self.calls[min(len(self.results), len(self.calls) - 1)].what
