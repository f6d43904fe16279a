"""The operator as an object: everything wired, with `start()` and `stop()`. No process, no signals, no ports.

`process` wraps it for a cluster; the local runner starts the very same object in its own process. Order is what this
file is about. Starting: the API server serves TFJobs, caches fill, this replica leads (if there is an election),
workers start. Stopping: no new key is taken, running syncs finish, the lease is released, the informers end.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tfoperator.api.names import OPERATOR_NAME
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.archive import LogArchive, LogSource, ensure_writable
from tfoperator.clock import Clock, StopSignal, SystemClock
from tfoperator.controller import (
    Accelerator,
    ControllerInformers,
    ControllerOptions,
    PlanOptions,
    TFJobController,
    gang_scheduler,
    peer_object_name,
    unique_object_name,
)
from tfoperator.events import EventRecorder, ObjectReference
from tfoperator.expectations import Expectations
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.verbs import ApiClient
from tfoperator.leaderelection import LeaderElector, LeaseLock
from tfoperator.operator.metrics import OperatorMetrics
from tfoperator.operator.options import Options
from tfoperator.operator.preflight import await_resources, needed_resources
from tfoperator.reconciler import Reconciler
from tfoperator.workqueue import (
    BucketRateLimiter,
    ExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    RateLimitingQueue,
)

__all__ = ["WATCH_BATCH_PERIOD", "Operator"]

logger = logging.getLogger(__name__)

_RETRY_BASE = 0.005
_RETRY_CAP = 120.0
"""Seconds. A job that can't be synced (a name taken, a quota used up) is tried at least every two minutes: nobody tells
us when such an obstacle goes away."""

WATCH_BATCH_PERIOD = 0.05
"""Seconds. So long, at most, a watch's news wait for more; the first after a pause don't. The jobs of a burst cost less
than two thirds of the CPU that way (0.02 saves half as much), and nobody sees that pods are noticed a blink later.
"""

_FIRST_STATUS_SECONDS = 1.0
"""As long as users may wait to see that a job is Created, while its pods have not started."""

_EVENT_FLUSH_SECONDS = 3.0
_IDLE_STOP_SECONDS = 2.0


class Operator:
    """One replica of the operator. Thread-safe; `start()` and `stop()` once each.

    `start()` returns at once: waiting for the API server, for caches and for leadership happens in a thread.
    `on_failure(reason)` is called, from that thread, if the operator can't go on by itself (its lease was lost, an
    informer has failed); it should be stopped then.
    """

    def __init__(
        self,
        client: ApiClient,
        options: Options | None = None,
        *,
        lease_client: ApiClient | None = None,
        log_source: LogSource | None = None,
        metrics: OperatorMetrics | None = None,
        clock: Clock | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        """`lease_client`, if given, is used for the lease alone, so that renewing it never queues behind other work.

        `log_source` is where the logs come from that the option `archive_dir` has kept. Raises OSError if nothing can
        be written there.
        """
        self._client = client
        self._lease_client = lease_client or client
        self._options = options or Options()
        self._clock = clock or SystemClock()
        self.metrics = metrics or OperatorMetrics()
        self._on_failure = on_failure
        self._stop = StopSignal()
        self._failure = ""
        self._caches_complete = False
        self._working = False
        self._drained = True
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)
        self._namespaces = self._options.namespace or ("",)
        host = socket.gethostname()
        self.identity = f"{host}_{uuid.uuid4()}"
        self._factory = SharedInformerFactory(
            client, namespaces=self._namespaces, clock=self._clock, metrics=self.metrics.informers
        )
        self._recorder = EventRecorder(client, component=OPERATOR_NAME, host=host, clock=self._clock)
        self._plan_options = _plan_options(self._options)
        self._archive = self._make_archive(log_source)
        self._controller, self._reconciler = self._wire()
        self._elector = self._make_elector() if self._options.leader_elect else None
        self.metrics.watch_leadership(lambda: self.is_leader)

    # What health checks ask.

    @property
    def is_ready(self) -> bool:
        """Whether the caches are complete and it isn't stopping; a standby is ready, too."""
        return self._caches_complete and not self._stop.is_set() and not self.failure

    @property
    def is_leader(self) -> bool:
        """Whether this replica works on jobs now."""
        return self._working and (self._elector is None or self._elector.is_leader)

    @property
    def failure(self) -> str:
        """Why it can't go on; empty while all is well."""
        informer = self._factory.failure
        return self._failure or (f"an informer has failed: {informer}" if informer is not None else "")

    # Life.

    def equip(self, accelerators: Mapping[str, Accelerator]) -> None:
        """Give the containers of pods that are made from now on these accelerators' parts."""
        self._plan_options = msgspec.structs.replace(self._plan_options, accelerators=accelerators)
        self._controller.plan_with(self._plan_options)

    def start(self) -> None:
        """Start, in the background. Raises RuntimeError if called twice."""
        self._thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new work, let running syncs finish for up to `timeout` real seconds, and end every thread.

        Default: `shutdown_grace_period`. Idempotent. Returns whether all work has ended in time. Close the client
        afterwards: that also ends a request that still waits for an answer.
        """
        grace = self._options.shutdown_grace_period if timeout is None else timeout
        self._stop.set()
        if not self._caches_complete:
            self._factory.stop(grace)
        if self._thread.ident is not None:
            # Only work is worth the whole grace: what else holds the thread up is a request without an answer.
            self._thread.join(grace if self._working else min(grace, _IDLE_STOP_SECONDS))
        ended = self._drained and not (self._working and self._thread.is_alive())
        if not self._working:
            # The queue's own thread and the pool run even if the workers never did.
            self._controller.stop(0)
        if self._archive is not None:
            self._archive.close()
        ended = self._recorder.stop(_EVENT_FLUSH_SECONDS) and ended
        return self._factory.stop(max(grace, 1.0)) and ended

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:
            logger.exception("the operator failed unexpectedly")
            self._fail(f"{type(error).__name__}: {error}")

    def _live(self) -> None:
        needs = needed_resources(self._plan_options.gang)
        if not await_resources(self._client, self._namespaces, self._stop, self._clock, needs):
            return
        self._factory.start()
        self._factory.wait_for_sync(None)
        if self._stop.is_set():
            return
        if self._factory.failure is not None:
            self._fail(f"an informer has failed: {self._factory.failure}")
            return
        self._caches_complete = True
        logger.info("the caches are complete")
        if self._elector is None:
            self._work(self._stop)
            return
        self._elector.run(self._stop)
        if not self._stop.is_set():
            self._fail("the lease was lost: another replica may lead by now")

    def _work(self, stop: StopSignal) -> None:
        """Work until `stop`, then until running syncs have finished. What the elector calls while we lead.

        It does not give up waiting as `stop()` does: while a sync goes on, the lease must not be given back.
        """
        self._working = True
        self._drained = False
        self._recorder.start()
        self._controller.start()
        self._reconciler.start()
        logger.info("working on TFJobs")
        stop.wait(self._clock, None)
        logger.info("finishing running syncs")
        # The reconciler may be amid a long list; its end is waited for while the workers finish.
        drained = self._controller.stop(self._options.shutdown_grace_period)
        self._drained = self._reconciler.stop(1.0) and drained
        if not drained:
            logger.warning("a sync did not finish in %.0f s", self._options.shutdown_grace_period)
            self._controller.stop(None)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        logger.error("%s", reason)
        if self._on_failure is not None:
            self._on_failure(reason)

    # Wiring.

    def _wire(self) -> tuple[TFJobController, Reconciler]:
        options = self._options
        informers = ControllerInformers.of(self._factory, self._plan_options.gang)
        expectations = Expectations(clock=self._clock)
        queue: RateLimitingQueue[str] = RateLimitingQueue(
            MaxOfRateLimiter(
                ExponentialFailureRateLimiter(_RETRY_BASE, _RETRY_CAP), BucketRateLimiter(clock=self._clock)
            ),
            name="tfjobs",
            clock=self._clock,
            metrics=self.metrics.queues,
        )
        controller = TFJobController(
            self._client,
            informers,
            queue=queue,
            expectations=expectations,
            recorder=self._recorder,
            clock=self._clock,
            options=ControllerOptions(
                threadiness=options.threadiness,
                parallelism=options.create_parallelism,
                first_status_period=_FIRST_STATUS_SECONDS,
                plan=self._plan_options,
            ),
            metrics=self.metrics.jobs,
            archive=self._archive,
        )
        reconciler = Reconciler(
            self._client,
            informers,
            controller,
            expectations=expectations,
            namespaces=self._namespaces,
            base=options.resync_period,
            cap=options.reconcile_max_period,
            clock=self._clock,
            metrics=self.metrics.reconciler,
        )
        return controller, reconciler

    def _make_archive(self, source: LogSource | None) -> LogArchive | None:
        options = self._options
        if not options.archive_dir or source is None:
            return None
        root = Path(options.archive_dir)
        ensure_writable(root)
        return LogArchive(
            source,
            root,
            max_bytes=options.archive_max_bytes,
            max_log_bytes=options.archive_max_log_bytes,
            timeout=options.archive_timeout,
            report=self._log_was_lost,
            metrics=self.metrics.archive,
            clock=self._clock,
        )

    def _log_was_lost(self, job: TFJob, message: str) -> None:
        reference = ObjectReference.to(TFJOBS.api_version, TFJOBS.kind, job.metadata)
        self._recorder.event(reference, "Warning", "LogsNotArchived", message)

    def _make_elector(self) -> LeaderElector:
        options = self._options
        namespace = options.leader_elect_namespace or os.environ.get("POD_NAMESPACE", "") or "default"
        return LeaderElector(
            LeaseLock(self._lease_client, namespace=namespace, name=options.leader_elect_id, identity=self.identity),
            on_started_leading=self._work,
            on_stopped_leading=lambda: None,
            on_new_leader=lambda leader: logger.info("the leader is %s", leader),
            lease_duration=options.leader_elect_lease_duration,
            renew_deadline=options.leader_elect_renew_deadline,
            retry_period=options.leader_elect_retry_period,
            clock=self._clock,
        )


def _plan_options(options: Options) -> PlanOptions:
    return PlanOptions(
        cluster_domain=options.cluster_domain,
        evaluator_in_cluster=options.evaluator_in_cluster,
        restart_delay_base=options.restart_delay_base,
        restart_delay_cap=options.restart_delay_cap,
        accelerators=options.accelerators,
        default_ps_image=options.default_ps_image,
        default_tensorboard_image=options.default_tensorboard_image,
        gang=gang_scheduler(options.gang_scheduler_name),
        object_name=unique_object_name if options.unique_names else peer_object_name,
    )
