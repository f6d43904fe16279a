"""Queues for controllers: deduplicating, delaying, rate-limited, observable. Knows nothing of Kubernetes."""

from tfoperator.workqueue.delaying_queue import DelayingQueue
from tfoperator.workqueue.metrics import DURATION_BUCKETS, Counter, Histogram, MetricsProvider, NoMetrics
from tfoperator.workqueue.queue import Queue, ShutDown
from tfoperator.workqueue.rate_limiters import (
    BucketRateLimiter,
    ExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    default_rate_limiter,
)
from tfoperator.workqueue.rate_limiting_queue import RateLimitingQueue

__all__ = [
    "DURATION_BUCKETS",
    "BucketRateLimiter",
    "Counter",
    "DelayingQueue",
    "ExponentialFailureRateLimiter",
    "Histogram",
    "MaxOfRateLimiter",
    "MetricsProvider",
    "NoMetrics",
    "Queue",
    "RateLimiter",
    "RateLimitingQueue",
    "ShutDown",
    "default_rate_limiter",
]
