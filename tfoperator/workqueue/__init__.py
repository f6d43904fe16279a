"""Queues for controllers: deduplicating, delaying, rate-limited, observable. Knows nothing of Kubernetes."""

from tfoperator.workqueue.delaying_queue import DelayingQueue
from tfoperator.workqueue.metrics import DURATION_BUCKETS, Counter, Histogram, MetricsProvider
from tfoperator.workqueue.queue import Queue, ShutDown
from tfoperator.workqueue.rate_limiters import (
    BucketRateLimiter,
    ExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    default_rate_limiter,
)
from tfoperator.workqueue.rate_limiting_queue import RateLimitingQueue
from tfoperator.workqueue.workers import Workers

__all__ = [
    "DURATION_BUCKETS",
    "BucketRateLimiter",
    "Counter",
    "DelayingQueue",
    "ExponentialFailureRateLimiter",
    "Histogram",
    "MaxOfRateLimiter",
    "MetricsProvider",
    "Queue",
    "RateLimitingQueue",
    "ShutDown",
    "Workers",
    "default_rate_limiter",
]
