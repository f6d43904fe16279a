"""The double check: compares caches with the live state, with backoff and bounded cost, and repairs."""

from tfoperator.reconciler.compare import Collation, Difference, Version, confirmed
from tfoperator.reconciler.hooks import Reconcilable, ReconcilerMetrics
from tfoperator.reconciler.live import Look, Looker
from tfoperator.reconciler.reconciler import Reconciler
from tfoperator.reconciler.schedule import BASE_INTERVAL, MAX_INTERVAL, Schedule

__all__ = [
    "BASE_INTERVAL",
    "MAX_INTERVAL",
    "Collation",
    "Difference",
    "Look",
    "Looker",
    "Reconcilable",
    "Reconciler",
    "ReconcilerMetrics",
    "Schedule",
    "Version",
    "confirmed",
]
