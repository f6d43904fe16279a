"""Queues for controllers.

The queues remove duplicates, delay items, limit the rate of retries, and have metrics. They do not depend on
Kubernetes.
"""

from tfoperator.workqueue.delaying_queue import DelayingQueue, RateLimitingQueue
from tfoperator.workqueue.metrics import QueueMetrics
from tfoperator.workqueue.queue import PROCESSING_ID, Workers

__all__ = [
    "PROCESSING_ID",
    "DelayingQueue",
    "QueueMetrics",
    "RateLimitingQueue",
    "Workers",
]
