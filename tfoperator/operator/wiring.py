"""Makes the parts of an operator from its options, and connects the parts. This module does not start the parts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from tfoperator.api.replicas.names import OPERATOR_NAME
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import Clock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.controller import (
    CONTROLLER_NAME,
    Collaborators,
    ControllerInformers,
    ControllerOptions,
    PodWitnesses,
    ProgressAccess,
    StackKeeper,
    TFJobController,
)
from tfoperator.events import EventRecorder, ObjectReference
from tfoperator.expectations import Expectations
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.logs.archive.opening import open_place
from tfoperator.logs.archive.pod_logs import ArchiveBounds
from tfoperator.logs.archive.writer import LogArchive
from tfoperator.operator.crd_check import CrdCheck
from tfoperator.operator.ended_logs import EndedLogs
from tfoperator.operator.metrics.operator_metrics import OperatorMetrics
from tfoperator.operator.options.planning import plan_options
from tfoperator.operator.options.settings import Options
from tfoperator.operator.witnesses.log_looks import LogLooker, NewestLineOf
from tfoperator.operator.witnesses.stall_stacks import StackTaker
from tfoperator.reconciler import Intervals, Reconciler
from tfoperator.workqueue import RateLimitingQueue

if TYPE_CHECKING:
    from tfoperator.servers.progress.progress_server import ProgressServer
    from tfoperator.servers.progress.report_store import ReportStore

_RETRY_BASE = 0.005
_RETRY_CAP = 120.0
"""Seconds. A job whose sync fails is retried at least every two minutes. For some reasons (a name is taken, a quota is
used up) no event shows that the reason is gone.
"""

_RETRY_RATE, _RETRY_BURST = 10.0, 100
"""The maximum number of retries per second for all jobs together, and the burst. These are client-go's values."""

WRITE_DELAYS = {"first_status_period": 1.0, "counts_period": 1.0, "queue_text_period": 30.0}
"""Delays of status writes, in seconds. So the API server gets fewer writes. `first_status_period` delays the first
status (Created) while a job's pods have not started. `counts_period` lies between two writes that only increase the
counts of active or ready replicas. `queue_text_period` lies between two writes that only change numbers in the text
about why the job waits in its queue.
"""


class Reach(msgspec.Struct, frozen=True):
    """The optional connections of an operator in addition to its client. None means that there is no such connection.

    - `lease_client` is used only for the lease, so that a renewal of the lease never waits behind other requests.
    - `log_source` is the client that reads the logs of pods for the archive (option `archive_dir`).
    - `newest_line` reads the newest log lines of jobs with a progress deadline.
    - `stacks` takes the stacks of jobs that have stalled. If `stacks` is None and the option `stall_stacks` is set, the
      operator takes the stacks with the client `log_source`, and puts them into the archive.
    - `fetch` returns the body of a GET of a path of the API server. The progress server needs `fetch` to get the keys
      that verify tokens. If `checks_crd` is true, the operator also uses `fetch` to compare the CRD with this release.
    """

    lease_client: ApiClient | None = None
    log_source: Client | None = None
    newest_line: NewestLineOf | None = None
    stacks: StackKeeper | None = None
    fetch: Callable[[str], bytes] | None = None
    checks_crd: bool = False


class Parts:
    """The parts of an operator: informers, controller, reconciler, archive, progress server and others.

    `archive`, `ended_logs`, `progress`, `log_looker`, `stack_taker` and `crd_check` are None if they are disabled.

    The constructor has the same parameters as `Operator`. Raises OSError if the archive can't be written, and
    ListenError if another program uses the address of the progress server.
    """

    def __init__(
        self,
        client: ApiClient,
        options: Options,
        reach: Reach,
        *,
        host: str,
        metrics: OperatorMetrics,
        clock: Clock,
        is_leader: Callable[[], bool],
    ) -> None:
        self._options = options
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self.namespaces = options.namespace or ("",)
        self.factory = SharedInformerFactory(client, namespaces=self.namespaces, clock=clock, metrics=metrics.informers)
        self._queue: RateLimitingQueue[str] = RateLimitingQueue(
            base=_RETRY_BASE,
            cap=_RETRY_CAP,
            bucket=TokenBucket(_RETRY_RATE, _RETRY_BURST, clock=clock),
            name=CONTROLLER_NAME,
            clock=clock,
            metrics=metrics.queues,
        )
        self.recorder = EventRecorder(
            client,
            component=OPERATOR_NAME,
            host=host,
            clock=clock,
            behind=self._queue.is_busy,
        )
        self._plan_lock = threading.Lock()  # guards _plan_options
        self._plan_options = plan_options(options, **WRITE_DELAYS)
        self.gang = self._plan_options.gang
        self.informers = ControllerInformers.of(self.factory, self.gang, kueue=options.kueue)
        self.archive = self._make_archive(reach.log_source)
        self.ended_logs = None if self.archive is None else self._follow_ends(self.archive)
        self.log_looker = None if reach.newest_line is None else LogLooker(reach.newest_line, clock=clock)
        self.stack_taker = None if reach.stacks is not None else self._make_stack_taker(reach.log_source)
        # The store of reports is made before the controller, which reads it. The progress server fills the store. It
        # is made after the controller, because it calls the controller.
        reports = self._make_report_store(reach.fetch)
        expectations = Expectations(clock=clock)
        witnesses = PodWitnesses(logs=self.log_looker, stacks=reach.stacks or self.stack_taker)
        self.controller = self._make_controller(expectations, witnesses, reports)
        self.reconciler = self._make_reconciler(expectations)
        self.progress = self._make_progress_server(reach.fetch, reports, is_leader)
        self.crd_check = self._make_crd_check(reach.fetch, is_leader) if reach.checks_crd else None

    def plan_with(self, **changes: object) -> None:
        """Replace fields of `PlanOptions`, for example `restart_rules`, for all later syncs. Thread-safe."""
        with self._plan_lock:
            self._plan_options = msgspec.structs.replace(self._plan_options, **changes)
            self.controller.plan_with(self._plan_options)

    def _trust(self, url: str, authorities: str) -> None:
        """Set the URL of the progress server for new pods, and the CA certificates with which pods verify the server.

        The progress server calls this method when its certificates have changed.
        """
        self.plan_with(progress=ProgressAccess(url, authorities, for_all=self._options.progress_default))

    def _make_controller(
        self, expectations: Expectations, witnesses: PodWitnesses, reports: ReportStore | None
    ) -> TFJobController:
        outside = Collaborators(
            self._client,
            self.recorder,
            self._clock,
            self._metrics.jobs,
            self.archive,
            witnesses,
            None if reports is None else reports.progress_of,
        )
        return TFJobController(
            outside,
            self.informers,
            queue=self._queue,
            expectations=expectations,
            options=ControllerOptions(threadiness=self._options.threadiness, plan=self._plan_options),
        )

    def _make_reconciler(self, expectations: Expectations) -> Reconciler:
        return Reconciler(
            self._client,
            self.informers,
            self.controller,
            expectations=expectations,
            namespaces=self.namespaces,
            intervals=Intervals(self._options.resync_period, self._options.reconcile_max_period),
            clock=self._clock,
            metrics=self._metrics.reconciler,
        )

    def _make_report_store(self, fetch: Callable[[str], bytes] | None) -> ReportStore | None:
        if self._options.progress_bind_address is None or fetch is None:
            return None
        from tfoperator.servers.progress.report_store import ReportStore

        return ReportStore(self._clock)

    def _make_progress_server(
        self, fetch: Callable[[str], bytes] | None, reports: ReportStore | None, is_leader: Callable[[], bool]
    ) -> ProgressServer | None:
        options, address = self._options, self._options.progress_bind_address
        if address is None or fetch is None or reports is None:
            return None
        # Imported late: an operator without a progress server does not need these modules.
        from tfoperator.servers.progress.metrics import ProgressMetrics
        from tfoperator.servers.progress.progress_server import ProgressConfig, ProgressServer, Surroundings

        config = ProgressConfig(
            host=address.host,
            port=address.port,
            namespace=options.progress_namespace or os.environ.get("POD_NAMESPACE", "") or "default",
            service=options.progress_service,
            secret=options.progress_secret,
            url=options.progress_url,
            cluster_domain=options.cluster_domain,
            writes_per_second=options.progress_writes_per_second,
        )
        outside = Surroundings(
            client=self._client,
            jobs=self.informers.jobs,
            pods=self.informers.pods,
            fetch=fetch,
            on_authorities=self._trust,
            usage_of=self.controller.newer_usage,
            clock=self._clock,
        )
        metrics = ProgressMetrics(self._metrics.registry, is_leader)
        return ProgressServer(config, reports, outside, metrics=metrics, queue_metrics=self._metrics.queues)

    def _make_crd_check(self, fetch: Callable[[str], bytes] | None, is_leader: Callable[[], bool]) -> CrdCheck | None:
        if fetch is None:
            return None
        return CrdCheck(
            self._client,
            fetch,
            namespaces=self.namespaces,
            report=self._tell,
            is_leader=is_leader,
            metrics=self._metrics,
            clock=self._clock,
        )

    def _make_archive(self, source: Client | None) -> LogArchive | None:
        options = self._options
        if not options.archive_dir or source is None:
            return None
        place = open_place(options.archive_dir)
        place.check()
        return LogArchive(
            source,
            place,
            ArchiveBounds(options.archive_max_bytes, options.archive_max_log_bytes, options.archive_timeout),
            report=self._log_was_lost,
            metrics=self._metrics.archive,
            clock=self._clock,
            pod_now=self._pod_now,
        )

    def _follow_ends(self, archive: LogArchive) -> EndedLogs:
        pods, jobs = self.informers.pods, self.informers.jobs.lister
        return EndedLogs(archive, pods, jobs, clock=self._clock, metrics=self._metrics.queues)

    def _make_stack_taker(self, source: Client | None) -> StackTaker | None:
        if not self._options.stall_stacks or source is None or self.archive is None:
            return None
        return StackTaker(source, self.archive.keep_stacks, self._tell, clock=self._clock)

    def _pod_now(self, pod: Pod) -> Pod | None:
        now = self.informers.pods.lister.find(pod.metadata.key)
        return now if now is not None and now.metadata.uid == pod.metadata.uid else None

    def _log_was_lost(self, job: ObjectMeta, message: str) -> None:
        self._tell(job, JobReason.LOGS_NOT_ARCHIVED, message)

    def _tell(self, job: ObjectMeta, reason: JobReason, message: str) -> None:
        about = ObjectReference.to(TFJOBS.api_version, TFJOBS.kind, job)
        self.recorder.event(about, reason.event_type, reason.value, message)
