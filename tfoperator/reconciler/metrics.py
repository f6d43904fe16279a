"""Prometheus metrics about the comparison of the caches with the live state."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from tfoperator.base.metrics import Makers


class ReconcilerMetrics:
    """Counts comparisons and repairs of the caches. Without a registry, the counts are not exported. Thread-safe."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        make = Makers(registry)
        self._seconds = make.histogram(
            "tfoperator_reconcile_duration_seconds", "Duration of a comparison round in seconds."
        )
        self._jobs = make.counter(
            "tfoperator_reconciled_jobs", "Jobs whose cached objects were compared with the API server."
        )
        self._failures = make.counter("tfoperator_reconcile_failures", "Rounds that failed.")
        self._repairs = make.counter(
            "tfoperator_reconcile_repairs", "Objects whose changes the watch had missed.", ("resource",)
        )

    def looked(self, seconds: float, jobs: int) -> None:
        """Record that a look at the live state took `seconds`, and that `jobs` jobs were compared with it."""
        self._seconds.observe(seconds)
        self._jobs.inc(jobs)

    def look_failed(self) -> None:
        """Record that the live state could not be read."""
        self._failures.inc()

    def repaired(self, resource: str, objects: int) -> None:
        """Record that the cache of a resource missed changes of this number of objects.

        `resource` is `expectations` if an expected event of a job did not arrive.
        """
        self._repairs.labels(resource).inc(objects)
