"""The progress server of a replica of the operator: its endpoint, report store, status writer and certificate."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta

import msgspec

from tfoperator.api.replicas.names import replica_name
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.status import JobUsage
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.informers import Callbacks, InformerGroup
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import ObjectMeta, Pod, object_key
from tfoperator.servers.keyring.keeper import KeyringKeeper, server_names
from tfoperator.servers.keyring.keyring import Keyring
from tfoperator.servers.keyring.secret import KeyringSecret
from tfoperator.servers.progress.metrics import ProgressMetrics
from tfoperator.servers.progress.report_store import ReportStore
from tfoperator.servers.progress.reports import ProgressReport
from tfoperator.servers.progress.server import ProgressEndpoint
from tfoperator.servers.progress.tokens import TokenVerifier
from tfoperator.servers.progress.writer import ProgressWriter
from tfoperator.workqueue import QueueMetrics

VALIDITY = timedelta(days=365)
"""The validity of the server's certificate. A pod gets the authorities of the current and the next certificate when it
is created, and never again. A certificate is renewed after two thirds of its validity. So a pod trusts the server for
at least 243 days.
"""


class ProgressConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the server: where it listens, how pods reach it, and how often it writes statuses of jobs.

    Pods reach the server at `url` if it is set, and otherwise through the Service. In `url`, `{port}` stands for the
    port in use. `secret` is the name of the Secret with the certificate. `writes_per_second` is the limit for this
    replica of the operator.
    """

    host: str
    port: int
    namespace: str
    service: str
    secret: str
    writes_per_second: float
    url: str = ""
    cluster_domain: str = ""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an operator that its progress server needs.

    `jobs` and `pods` are the informers. `fetch` returns the body of a GET request for a path of the API server.
    `on_authorities` is called from another thread, with the prefix of the URLs to which programs report, and the
    authorities that new pods must trust (PEM). `usage_of` returns a job's usage of resources if it is newer than
    `status.usage`.
    """

    client: ApiClient
    jobs: InformerGroup[TFJob]
    pods: InformerGroup[Pod]
    fetch: Callable[[str], bytes]
    on_authorities: Callable[[str, str], None]
    usage_of: Callable[[TFJob], JobUsage | None] = lambda _: None
    clock: Clock = SystemClock()


class ProgressServer:
    """Receives the reports of training programs, and writes them to the statuses of the programs' jobs.

    It runs in each replica of the operator, and not only in the leader. Call `start()` once when the informers have
    synced, and `stop()` once. Thread-safe.
    """

    def __init__(
        self,
        config: ProgressConfig,
        reports: ReportStore,
        outside: Surroundings,
        *,
        metrics: ProgressMetrics | None = None,
        queue_metrics: QueueMetrics | None = None,
    ) -> None:
        """Listen on the address in `config`. Raises ListenError if the address is in use.

        The server keeps the newest reports of programs in `reports`.
        """
        client, jobs, pods, clock = outside.client, outside.jobs, outside.pods, outside.clock
        self._metrics = metrics or ProgressMetrics()
        self._store = reports
        self._jobs = jobs.lister
        self._pods = pods.lister
        self._on_authorities = outside.on_authorities
        self._writer = ProgressWriter(
            client,
            jobs.lister,
            self._store.progress_of,
            outside.usage_of,
            writes_per_second=config.writes_per_second,
            clock=clock,
            metrics=self._metrics,
            queue_metrics=queue_metrics,
        )
        self._endpoint = ProgressEndpoint(
            config.host,
            config.port,
            verifier=TokenVerifier(outside.fetch, clock=clock),
            jobs=jobs.lister,
            pods=pods.lister,
            take=self._take,
            clock=clock,
            metrics=self._metrics,
        )
        url = config.url or f"https://{config.service}.{config.namespace}.svc"
        self.url = url.rstrip("/").replace("{port}", str(self._endpoint.port))
        """The prefix of the URLs to which programs report."""
        self._keeper = KeyringKeeper(
            KeyringSecret(client, config.namespace, config.secret, option="--progress-secret"),
            server_names(config.url, config.service, config.namespace, config.cluster_domain or "cluster.local"),
            self._show,
            owner="progress server",
            validity=VALIDITY,
            clock=clock,
        )
        handler = Callbacks(changed=self._job_changed, gone=self._job_gone)
        jobs.add_handler(handler, resync_period=0, name="progress")

    @property
    def port(self) -> int:
        """The port at which the server listens."""
        return self._endpoint.port

    def listen_also(self, listening: socket.socket) -> None:
        """Receive reports on this socket, too.

        The socket is closed together with the server. If the server has already stopped, the socket is closed now.
        """
        self._endpoint.listen_also(listening)

    @property
    def is_ready(self) -> bool:
        """Whether the server has a certificate and so can receive reports."""
        return self._endpoint.is_ready()

    def observe(self, pod_key: str, report: ProgressReport) -> None:
        """Accept progress that the operator has found in the log of a pod (`namespace/name`).

        The server fills in the report's `replica` and `pod`. The report is ignored if the pod's program itself sends
        reports.
        """
        pod = self._pods.find(pod_key)
        owner = None if pod is None else pod.metadata.controller
        job = None if owner is None or pod is None else self._jobs.find(object_key(pod.metadata.namespace, owner.name))
        if pod is not None and job is not None and pod.metadata.is_controlled_by(job.metadata.uid):
            named = msgspec.structs.replace(report, replica=replica_name(pod), pod=pod.metadata.uid, observed=True)
            self._take(job, named)

    def start(self) -> None:
        """Start to respond to requests and to write statuses, in other threads."""
        self._writer.start()
        self._endpoint.start()
        self._keeper.start()

    def stop(self) -> None:
        """Respond to the current requests, write all reports (for up to 2 s), and end all threads. Idempotent."""
        self._keeper.stop()
        self._endpoint.stop()
        self._writer.stop()

    def _show(self, keyring: Keyring) -> None:
        # First the authorities: pods that are created after the server is ready must trust its certificate.
        self._on_authorities(self.url, keyring.bundle.decode())
        self._endpoint.show(keyring.serving)
        self._metrics.expiry.set(keyring.about.ends.timestamp())

    def _take(self, job: TFJob, report: ProgressReport) -> None:
        meta = job.metadata
        if not self._store.add(meta.uid, report):
            return
        if self._is_gone(meta):
            # The job was deleted meanwhile. `_job_gone` may have run before `add`, and does not run again.
            self._store.forget(meta.uid)
        else:
            self._writer.changed(meta.key)

    def _is_gone(self, meta: ObjectMeta) -> bool:
        job = self._jobs.find(meta.key)
        return job is None or job.metadata.uid != meta.uid

    def _job_changed(self, job: TFJob) -> None:
        progress, meta = job.status.progress, job.metadata
        if progress is None:
            return
        if final_condition(job) is not None:
            self._metrics.ended(meta.namespace, meta.name)
        else:
            self._metrics.progressed(meta.namespace, meta.name, progress)

    def _job_gone(self, job: TFJob) -> None:
        meta = job.metadata
        self._store.forget(meta.uid)
        self._writer.forget(meta.key)
        self._metrics.ended(meta.namespace, meta.name)
