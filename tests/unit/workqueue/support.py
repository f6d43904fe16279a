"""Helpers that several workqueue tests share."""

from typing import Any

from prometheus_client import CollectorRegistry

from tfoperator.workqueue import QueueMetrics
from tfoperator.workqueue.queue import Queue


class ShownMetrics(QueueMetrics):
    """The metrics of the queue `jobs`, as a scrape shows them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(self.registry)

    def value(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"workqueue_{name}", {"name": "jobs", "controller": "jobs"})

    def durations(self, name: str) -> tuple[float | None, float | None]:
        """How many there were, and their sum."""
        return self.value(f"{name}_duration_seconds_count"), self.value(f"{name}_duration_seconds_sum")


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
