"""Queues for controllers: deduplicating, delaying, rate-limited, observable. Knows nothing of Kubernetes."""

from tfoperator.workqueue.delaying_queue import DelayingQueue, RateLimitingQueue
from tfoperator.workqueue.metrics import DURATION_BUCKETS, Counter, Histogram, MetricsProvider
from tfoperator.workqueue.queue import PROCESSING_ID, Workers

__all__ = [
    "DURATION_BUCKETS",
    "PROCESSING_ID",
    "Counter",
    "DelayingQueue",
    "Histogram",
    "MetricsProvider",
    "RateLimitingQueue",
    "Workers",
]
