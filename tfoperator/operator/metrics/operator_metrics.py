"""All metrics at `/metrics`, in one registry for each operator.

A process may contain several operators, in tests for example. The packages of the controller, the reconciler and the
servers define their own metrics, which they add to this registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import tfoperator
from tfoperator.base.metrics import Makers
from tfoperator.controller import ControllerMetrics
from tfoperator.logs.archive.writer import ArchiveMetrics
from tfoperator.operator.metrics.tool_metrics import ClientMetrics, PrometheusInformerMetrics
from tfoperator.operator.metrics.usage_metrics import Read, UsageMetrics
from tfoperator.reconciler import ReconcilerMetrics
from tfoperator.workqueue import QueueMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class PrometheusArchiveMetrics(ArchiveMetrics):
    """The metrics of the log archive."""

    def __init__(self, registry: CollectorRegistry) -> None:
        make = Makers(registry)
        self._pods = make.counter("tfoperator_archived_pods", "Pods whose logs were copied to the archive.")
        self._bytes = make.counter("tfoperator_archived_bytes", "Bytes of logs that were copied to the archive.")
        self._failures = make.counter("tfoperator_archive_failures", "Pods whose log could not be kept.")

    def archived(self, size: int, *, new: bool) -> None:
        self._pods.inc(int(new))
        self._bytes.inc(size)

    def archive_failed(self) -> None:
        self._failures.inc()


class _StalledJobs(Collector):
    """A Prometheus collector that counts, at each scrape, the jobs whose condition Stalled is true."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily(
            "tfoperator_stalled_jobs",
            "Jobs that make no progress. Only the leader has values.",
            labels=["job_namespace"],
        )
        for namespace, count in sorted(self._read().items()):
            gauge.add_metric([namespace], count)
        yield gauge


class OperatorMetrics:
    """All metrics of one operator. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.queues = QueueMetrics(self.registry)
        self.client = ClientMetrics(self.registry)
        self.informers = PrometheusInformerMetrics(self.registry)
        self.jobs = ControllerMetrics(self.registry)
        self.reconciler = ReconcilerMetrics(self.registry)
        self.archive = PrometheusArchiveMetrics(self.registry)
        build = Gauge(
            "tfoperator_build_info", "Always 1; the version is the label.", ("version",), registry=self.registry
        )
        build.labels(tfoperator.__version__).set(1)
        self._missing_fields: Gauge | None = None
        self._leader = Gauge("tfoperator_leader", "1 while this process leads, else 0.", registry=self.registry)
        self._election = Gauge(
            "leader_election_master_status",
            "1 while this process holds the lease, else 0.",
            ("name",),
            registry=self.registry,
        )

    def crd_lacks(self, fields: int) -> None:
        """Record the number of fields of this release that the API server does not serve.

        The metric appears after the first call.
        """
        if self._missing_fields is None:
            self._missing_fields = Gauge(
                "tfoperator_crd_missing_fields",
                "Fields of this release that the CRD in the API server does not have.",
                registry=self.registry,
            )
        self._missing_fields.set(fields)

    def watch_leadership(self, read: Callable[[], bool], lease: str = "") -> None:
        """Export the metric `tfoperator_leader`. At each scrape, `read` returns whether this process leads.

        With the name of a `lease`, also export client-go's metric `leader_election_master_status`.
        """
        self._leader.set_function(lambda: 1.0 if read() else 0.0)
        if lease:
            self._election.labels(lease).set_function(lambda: 1.0 if read() else 0.0)

    def watch_stalls(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Export the metric `tfoperator_stalled_jobs`.

        At each scrape, `read` returns the number of stalled jobs by namespace. `read` may omit namespaces without
        stalled jobs.
        """
        self.registry.register(_StalledJobs(read))

    def watch_usage(self, read: Read, now: Callable[[], datetime], *, per_job: bool = False) -> None:
        """Export the metrics of `UsageMetrics`. At each scrape, `read` returns the jobs with their usage.

        With `per_job`, the metrics also show the goodput of each job.
        """
        self.registry.register(UsageMetrics(read, now, per_job=per_job))

    def render(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return generate_latest(self.registry)
