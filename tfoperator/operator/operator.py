"""Starts and stops an operator within a process: `start()` and `stop()`.

The module starts no process and handles no signals. The module `process` starts an `Operator` in a process that does
nothing else, for example in a pod. `tfoperator run` starts an `Operator` inside of the process of the command. `wiring`
makes the operator's parts. This file sets the order in which the parts start and stop. The order of the start: the API
server serves TFJobs, the caches fill, this replica becomes the leader (if there is an election), the workers start. The
order of the stop: the workers take no new key, the running syncs finish, the operator releases the lease, the informers
end.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import has_condition
from tfoperator.api.v1.status import JobUsage
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import Clock, Repetition, StopSignal, SystemClock
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.leaderelection import LeaderElector, LeaseLock
from tfoperator.operator.metrics.operator_metrics import OperatorMetrics
from tfoperator.operator.options.settings import Options
from tfoperator.operator.preflight import (
    KUEUE_NEEDS,
    await_resources,
    has_restart_rules,
    needed_resources,
    warn_of_missing,
)
from tfoperator.operator.wiring import Parts, Reach

if TYPE_CHECKING:
    from tfoperator.servers.progress.progress_server import ProgressServer

logger = logging.getLogger(__name__)

WATCH_BATCH_PERIOD = 0.05
"""The maximum number of seconds for which an event of a watch waits, so that it is handled together with later events.
The first event after a pause does not wait. With a burst of jobs, this saves more than a third of the CPU (a period of
0.02 s saves half as much).
"""

_CERTIFICATE_SECONDS = 10.0
"""The maximum number of seconds for which the operator waits for the progress server's certificate before it works on
jobs. The certificate is mostly ready within a tenth of a second. Pods that are created before it is ready can't report
their progress.
"""

_VERSION_SECONDS = 600.0
"""If the API server is too old for restarts in place, the operator requests the server's version again after this many
seconds, because an administrator may upgrade the server.
"""

_EVENT_FLUSH_SECONDS = 5.0
_IDLE_STOP_SECONDS = 2.0

_QUEUES_SECONDS = 10.0
"""The maximum number of seconds to wait for the caches of Kueue's objects. After this time, the operator works without
these caches.
"""


class Operator:
    """One replica of the operator. Thread-safe. Call `start()` and `stop()` once each.

    `start()` returns at once. A thread waits for the API server, for the caches and for leadership. This thread calls
    `on_failure(reason)` if the operator can't continue, for example because it lost its lease or an informer failed.
    Then the caller should call `stop()`.
    """

    def __init__(
        self,
        client: ApiClient,
        options: Options | None = None,
        *,
        reach: Reach | None = None,
        metrics: OperatorMetrics | None = None,
        clock: Clock | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        """Initialize. `reach` contains the connections that the operator may use besides `client`, by default none.

        Raises OSError if the archive can't be written, and ListenError if another program uses the progress address.
        """
        self._client = client
        reach = reach or Reach()
        self._fetch = reach.fetch
        self._lease_client = reach.lease_client or client
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
        self._is_old_server = False  # whether the API server is too old for restarts in place
        self._version_check = Repetition(
            self._look_for_restart_rules, seconds=_VERSION_SECONDS, clock=self._clock, name="version-check"
        )
        host = socket.gethostname()
        self.identity = f"{host}_{uuid.uuid4()}"
        self._elector = self._make_elector() if self._options.leader_elect else None
        self._parts = Parts(
            client,
            self._options,
            reach,
            host=host,
            metrics=self.metrics,
            clock=self._clock,
            is_leader=self._leads,
        )
        self.metrics.watch_leadership(
            self._leads, lease=self._options.leader_elect_id if self._elector is not None else ""
        )
        self.metrics.watch_stalls(self._stalled_jobs)
        self.metrics.watch_usage(self._usages, self._clock.now, per_job=self._options.metrics_per_job)

    # For health checks.

    @property
    def is_ready(self) -> bool:
        """Whether the caches are complete and the operator neither stops nor has failed.

        A standby replica is ready, too.
        """
        return self._caches_complete and not self._stop.is_set() and not self.failure

    @property
    def takes_reports(self) -> bool:
        """Whether the progress server, to which training programs report their progress, is ready.

        True also if the options don't enable a progress server.
        """
        return self._parts.progress is None or self._parts.progress.is_ready

    @property
    def progress(self) -> ProgressServer | None:
        """The progress server, or None if the options don't enable a progress server."""
        return self._parts.progress

    @property
    def is_leader(self) -> bool:
        """Whether this replica works on jobs now."""
        return self._leads()

    @property
    def failure(self) -> str:
        """The reason why the operator can't continue, or "" while it can continue."""
        informer = self._parts.factory.failure
        return self._failure or (f"an informer has failed: {informer}" if informer is not None else "")

    # Lifecycle.

    def reload(self, options: Options) -> None:
        """Use the fields `accelerators` and `scheduling` of these options for new pods and PodGroups.

        Other fields have no effect. All active jobs are synced, because one of them may have waited for a queue or a
        priority class that is allowed now.
        """
        self._parts.plan_with(accelerators=options.accelerators, scheduling=options.scheduling)
        self._parts.controller.queue_active_jobs()

    def start(self) -> None:
        """Start the operator in the background. Raises RuntimeError if it is called twice."""
        self._thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no new work, let running syncs finish for up to `timeout` seconds of real time, and end every thread.

        The default of `timeout` is `shutdown_grace_period`. Idempotent. Returns whether all work has ended within
        `timeout`. After this call, the caller should close the client, which ends requests that still wait for an
        answer.
        """
        grace = self._options.shutdown_grace_period if timeout is None else timeout
        self._stop.set()
        self._version_check.stop(0)
        if self._parts.crd_check is not None:
            self._parts.crd_check.stop(0)
        if not self._caches_complete:
            self._parts.factory.stop(grace)
        if self._thread.ident is not None:
            # Only running syncs get the whole grace period. Before the workers start, the thread can only wait for a
            # request or for the lease.
            self._thread.join(grace if self._working else min(grace, _IDLE_STOP_SECONDS))
        ended = self._drained and not (self._working and self._thread.is_alive())
        if not self._working:
            # Even if the workers were never started, the threads of the queue and of the controller's pool run.
            self._parts.controller.stop(0)
        if self._parts.archive is not None and self._parts.ended_logs is not None:
            self._parts.ended_logs.stop(0)
            self._parts.archive.close()
            self._parts.ended_logs.stop(_IDLE_STOP_SECONDS)
        if self._parts.log_looker is not None:
            self._parts.log_looker.close()
        if self._parts.stack_taker is not None:
            self._parts.stack_taker.close()
        if self._parts.progress is not None:
            self._parts.progress.stop()
        ended = self._parts.recorder.stop(_EVENT_FLUSH_SECONDS) and ended
        return self._parts.factory.stop(max(grace, 1.0)) and ended

    def _leads(self) -> bool:
        return self._working and (self._elector is None or self._elector.is_leader)

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:
            logger.exception("the operator failed unexpectedly")
            self._fail(f"{type(error).__name__}: {error}")

    def _live(self) -> None:
        needs = needed_resources(self._parts.gang)
        if not await_resources(self._client, self._parts.namespaces, self._stop, self._clock, needs):
            return
        if self._parts.crd_check is not None:
            self._parts.crd_check.start()
        if self._options.kueue:
            warn_of_missing(self._client, self._parts.namespaces, KUEUE_NEEDS)
        if self._fetch is not None and not has_restart_rules(self._fetch):
            self._parts.plan_with(restart_rules=False)
            self._is_old_server = True
            self._version_check.start()
        self._parts.factory.start()
        self._parts.informers.wait_for_sync(queues_within=_QUEUES_SECONDS)
        if self._stop.is_set():
            return
        if self._parts.factory.failure is not None:
            self._fail(f"an informer has failed: {self._parts.factory.failure}")
            return
        self._caches_complete = True
        logger.info("the caches are complete")
        if self._parts.progress is not None:
            self._parts.progress.start()
            self._await_certificate()
        if self._elector is None:
            self._work(self._stop)
            return
        self._elector.run(self._stop, self._work)
        if not self._stop.is_set():
            self._fail("the lease was lost: another replica of the operator may lead now")

    def _look_for_restart_rules(self) -> None:
        """Use restart rules for new pods from now on, if the API server has been upgraded and supports them."""
        if self._is_old_server and self._fetch is not None and has_restart_rules(self._fetch, assumed=False):
            self._is_old_server = False
            self._parts.plan_with(restart_rules=True)
            logger.info("the API server supports restartMode InPlace now")

    def _await_certificate(self) -> None:
        deadline = self._clock.monotonic() + _CERTIFICATE_SECONDS
        while not self.takes_reports and self._clock.monotonic() < deadline:
            if self._stop.wait(self._clock, 0.02):
                return
        if not self.takes_reports:
            logger.warning(
                "the progress server has no certificate yet: pods that are created now can't report their progress"
            )

    def _work(self, stop: StopSignal) -> None:
        """Work on jobs until `stop` is set, and return when the running syncs have finished.

        The elector calls this method when this replica becomes the leader. In contrast to `stop()`, this method waits
        for the syncs without a time limit, because the lease must not be released while a sync runs.
        """
        self._working = True
        self._drained = False
        self._parts.recorder.start()
        self._parts.controller.start()
        self._parts.reconciler.start()
        if self._parts.ended_logs is not None:
            self._parts.ended_logs.start()
        if self._parts.crd_check is not None:
            self._parts.crd_check.wake()  # from now on, this replica reports events on jobs
        logger.info("working on TFJobs")
        stop.wait(self._clock, None)
        logger.info("finishing running syncs")
        if self._parts.ended_logs is not None:
            self._parts.ended_logs.stop(0)
        # The reconciler may be in a long list: wait for it while the workers finish.
        drained = self._parts.controller.stop(self._options.shutdown_grace_period)
        self._drained = self._parts.reconciler.stop(1.0) and drained
        if not drained:
            logger.warning("a sync did not finish in %.0f s", self._options.shutdown_grace_period)
            self._parts.controller.stop(None)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        logger.error("%s", reason)
        if self._on_failure is not None:
            self._on_failure(reason)

    def _stalled_jobs(self) -> Mapping[str, int]:
        """Return the number of stalled jobs by namespace.

        The result is empty if this replica does not lead, because the leader counts them.
        """
        if not self.is_leader:
            return {}
        jobs = self._parts.informers.jobs.lister.list()
        return Counter(job.metadata.namespace for job in jobs if has_condition(job, ConditionType.STALLED))

    def _usages(self) -> list[tuple[TFJob, JobUsage]] | None:
        """Return the jobs with their newest usage, without the jobs that have none yet.

        Return None if this replica does not lead.
        """
        if not self.is_leader:
            return None
        jobs, newer = self._parts.informers.jobs.lister.list(), self._parts.controller.newer_usage
        return [(job, usage) for job in jobs if (usage := newer(job) or job.status.usage) is not None]

    def _make_elector(self) -> LeaderElector:
        options = self._options
        namespace = options.leader_elect_namespace or os.environ.get("POD_NAMESPACE", "") or "default"
        return LeaderElector(
            LeaseLock(self._lease_client, namespace=namespace, name=options.leader_elect_id, identity=self.identity),
            on_new_leader=lambda leader: logger.info("the leader is %s", leader),
            lease_duration=options.leader_elect_lease_duration,
            renew_deadline=options.leader_elect_renew_deadline,
            retry_period=options.leader_elect_retry_period,
            clock=self._clock,
        )
