"""Prometheus metrics that show how jobs spend their time, by namespace.

With the option `metrics_per_job`, the metrics also show the goodput of each unfinished job. Goodput is the share of a
job's time in which it trained. The counters cover only the time during which this process leads. So the sum over all
processes, also after restarts, counts no time twice.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tfoperator.api.v1.status import JobUsage, UsagePhase
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import ObjectMeta

MAX_JOBS = 1000
"""The maximum number of jobs with their own time series."""

Read = Callable[[], Iterable[tuple[TFJob, JobUsage]] | None]
"""A function that returns all jobs with their usage, or None while another process leads."""

_FAMILIES = {
    "tfoperator_usage_seconds": ("Seconds of jobs in each phase.", "phase"),
    "tfoperator_requested_resource_seconds": (
        "Amounts that pods requested, multiplied by their seconds on nodes.",
        "resource",
    ),
    "tfoperator_trained_resource_seconds": (
        "Amounts that pods requested, multiplied by the seconds in which the job trained.",
        "resource",
    ),
}


class UsageMetrics(Collector):
    """A Prometheus collector. At each scrape, it adds the jobs' usage since the previous scrape to the counters."""

    def __init__(self, read: Read, now: Callable[[], datetime], *, per_job: bool = False) -> None:
        """Initialize; with `per_job`, the metrics also show the goodput of each of the first MAX_JOBS jobs."""
        self._read = read
        self._per_job = per_job
        self._now = now
        self._lock = threading.Lock()  # guards the two fields below
        self._counted: dict[str, dict[tuple[str, str], float]] | None = None  # by UID of the job; None: does not lead
        self._totals: dict[tuple[str, str, str], float] = {}  # by family, namespace, and phase or resource

    def describe(self) -> Iterator[Metric]:
        """Yield nothing, so that the registry does not collect the metrics when this collector is registered."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the counters, the goodput by namespace, and, if requested, the goodput of unfinished jobs."""
        now, jobs = self._now(), self._read()
        with self._lock:
            self._count(now, jobs)
            totals = dict(self._totals)
        going = [(job.metadata, usage) for job, usage in jobs or () if usage.phase]
        yield _by_namespace(going, now)
        if self._per_job:
            yield _by_job(going[:MAX_JOBS], now)
        for name, (text, label) in _FAMILIES.items():
            family = CounterMetricFamily(name, text, labels=["job_namespace", label])
            for (of, namespace, what), total in totals.items():
                if of == name:
                    family.add_metric([namespace, what], total)
            yield family

    def _count(self, now: datetime, jobs: Iterable[tuple[TFJob, JobUsage]] | None) -> None:
        if jobs is None:
            self._counted = None
            return
        counted = {job.metadata.uid: (job.metadata.namespace, _amounts(usage, now)) for job, usage in jobs}
        if self._counted is not None:
            for uid, (namespace, amounts) in counted.items():
                before = self._counted.get(uid, {})
                for (family, what), amount in amounts.items():
                    # An amount can become smaller: time that counted as training may later count as the start of the
                    # program. A counter must not decrease.
                    key, more = (family, namespace, what), amount - before.get((family, what), 0.0)
                    self._totals[key] = self._totals.get(key, 0.0) + max(more, 0.0)
        self._counted = {uid: amounts for uid, (_, amounts) in counted.items()}


def _by_namespace(going: Iterable[tuple[ObjectMeta, JobUsage]], now: datetime) -> GaugeMetricFamily:
    """Return the goodput of each namespace: the share of its unfinished jobs' time in which these jobs trained."""
    gauge = GaugeMetricFamily(
        "tfoperator_namespace_goodput_ratio",
        "Share of the unfinished jobs' time that was spent with training.",
        labels=["job_namespace"],
    )
    trained: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for meta, usage in going:
        seconds = usage.until(now)
        trained[meta.namespace] += seconds.get(UsagePhase.TRAINING, 0)
        passed[meta.namespace] += sum(seconds.values())
    for namespace, total in passed.items():
        gauge.add_metric([namespace], trained[namespace] / total if total else 0.0)
    return gauge


def _by_job(going: Iterable[tuple[ObjectMeta, JobUsage]], now: datetime) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(
        "tfoperator_job_goodput_ratio",
        "Share of the job's time in which it trained.",
        labels=["job_namespace", "job_name"],
    )
    for meta, usage in going:
        gauge.add_metric([meta.namespace, meta.name], (usage.goodput_at(now) or 0) / 100)
    return gauge


def _amounts(usage: JobUsage, now: datetime) -> dict[tuple[str, str], float]:
    seconds, requested, trained = _FAMILIES
    found: dict[tuple[str, str], float] = {(seconds, phase): float(spent) for phase, spent in usage.until(now).items()}
    for name, resource in usage.resources_until(now).items():
        found[requested, name] = resource.requested_seconds
        found[trained, name] = resource.trained_seconds
    return found
