"""Helpers that several workqueue tests share."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tfoperator.workqueue import MetricsProvider
from tfoperator.workqueue.queue import Queue, ShutDown


class Recorded:
    """A counter and histogram that keeps what it was given."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.values: list[float] = []

    def inc(self, amount: float = 1) -> None:
        with self._lock:
            self.values.append(amount)

    observe = inc

    @property
    def total(self) -> float:
        return sum(self.values)


class RecordingMetrics(MetricsProvider):
    """A MetricsProvider whose figures a test can read."""

    def __init__(self) -> None:
        self.pushed: dict[str, Recorded] = defaultdict(Recorded)
        self.gauges: dict[str, Callable[[], float]] = {}
        self.names: set[str] = set()

    def _push(self, metric: str, name: str) -> Recorded:
        self.names.add(name)
        return self.pushed[metric]

    def _pull(self, metric: str, name: str, read: Callable[[], float]) -> None:
        self.names.add(name)
        self.gauges[metric] = read

    def depth(self, name: str, read: Callable[[], int]) -> None:
        self._pull("depth", name, read)

    def adds(self, name: str) -> Recorded:
        return self._push("adds", name)

    def queue_duration(self, name: str) -> Recorded:
        return self._push("queue_duration", name)

    def work_duration(self, name: str) -> Recorded:
        return self._push("work_duration", name)

    def unfinished_work(self, name: str, read: Callable[[], float]) -> None:
        self._pull("unfinished_work", name, read)

    def longest_running_processor(self, name: str, read: Callable[[], float]) -> None:
        self._pull("longest_running_processor", name, read)

    def retries(self, name: str) -> Recorded:
        return self._push("retries", name)


def begin(queue: Queue[Any], item: Any) -> None:
    """An item is in processing."""
    queue.add(item)
    assert queue.get() == item


def drain(queue: Queue[Any]) -> list[Any]:
    """Take and finish everything that can be taken now."""
    taken = []
    while len(queue):
        item = queue.get()
        queue.done(item)
        taken.append(item)
    return taken


def work_until_shut_down(queue: Queue[Any], work: Callable[[Any], None]) -> int:
    """The usual worker loop; returns how many items it worked on."""
    count = 0
    while True:
        try:
            item = queue.get()
        except ShutDown:
            return count
        try:
            work(item)
        finally:
            queue.done(item)
        count += 1
