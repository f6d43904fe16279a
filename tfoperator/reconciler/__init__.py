"""The double check: compares caches with the live state, with backoff and bounded cost, and repairs."""

from tfoperator.reconciler.compare import Difference, Version, confirmed, differences
from tfoperator.reconciler.live import LiveObjects, LiveState, look
from tfoperator.reconciler.reconciler import Reconcilable, Reconciler, ReconcilerMetrics
from tfoperator.reconciler.schedule import BASE_INTERVAL, MAX_INTERVAL, Schedule

__all__ = [
    "BASE_INTERVAL",
    "MAX_INTERVAL",
    "Difference",
    "LiveObjects",
    "LiveState",
    "Reconcilable",
    "Reconciler",
    "ReconcilerMetrics",
    "Schedule",
    "Version",
    "confirmed",
    "differences",
    "look",
]
