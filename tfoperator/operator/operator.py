"""The operator as an object: everything wired, with `start()` and `stop()`. No process, no signals, no ports.

`process` wraps it for a cluster; the local runner starts the same object in its own process. This file is about
order. Starting: the API server serves TFJobs, caches fill, this replica leads (if there is an election),
workers start. Stopping: no new key is taken, running syncs finish, the lease is released, the informers end.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from tfoperator.api.job_conditions import has_condition
from tfoperator.api.names import OPERATOR_NAME
from tfoperator.api.v1.types import TFJOBS, ConditionType, Network
from tfoperator.archive import ArchiveBounds, LogArchive, LogSource, ensure_writable
from tfoperator.clock import Clock, StopSignal, SystemClock
from tfoperator.controller import (
    PLAIN_NAMES,
    UNIQUE_NAMES,
    ControllerInformers,
    ControllerOptions,
    PlanOptions,
    PodWitnesses,
    ProgressAccess,
    StackKeeper,
    TFJobController,
    gang_scheduler,
)
from tfoperator.events import EventRecorder, ObjectReference
from tfoperator.expectations import Expectations
from tfoperator.informers import ObjectNotFound, SharedInformerFactory
from tfoperator.kube.objects import ObjectMeta, Pod
from tfoperator.kube.verbs import ApiClient, Creator
from tfoperator.operator.election import Election
from tfoperator.operator.ended_logs import EndedLogs
from tfoperator.operator.log_looks import LogLooker, NewestLineOf
from tfoperator.operator.metrics import OperatorMetrics
from tfoperator.operator.options import Options
from tfoperator.operator.preflight import await_resources, needed_resources
from tfoperator.operator.progress import make_progress_server
from tfoperator.operator.stall_stacks import CommandRunner, StackTaker
from tfoperator.reconciler import Reconciler
from tfoperator.workqueue import BucketRateLimiter, ExponentialFailureRateLimiter, MaxOfRateLimiter, RateLimitingQueue

logger = logging.getLogger(__name__)

_RETRY_BASE = 0.005
_RETRY_CAP = 120.0
"""Seconds. A job that can't be synced (a name taken, a quota used up) is tried at least every two minutes: no event
tells that the reason is gone."""

WATCH_BATCH_PERIOD = 0.05
"""Seconds. A watch's events wait so long, at most, to be handled together with later ones; the first event after a
pause does not wait. For a burst of jobs that saves more than a third of the CPU (0.02 s saves half as much).
"""

_FIRST_STATUS_SECONDS = 1.0
"""How long users may wait to see that a job is Created, while its pods have not started."""

_CERTIFICATE_SECONDS = 10.0
"""How long work waits for the progress server's certificate, which mostly is there within a tenth of a second: pods
that are made without it can't report."""

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
        newest_line: NewestLineOf | None = None,
        stacks: StackKeeper | None = None,
        commands: CommandRunner | None = None,
        fetch: Callable[[str], bytes] | None = None,
        server_load: Callable[[], float] = lambda: 0.0,
        creator: Creator | None = None,
        metrics: OperatorMetrics | None = None,
        clock: Clock | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        """`lease_client`, if given, is used for the lease alone, so that renewing it never queues behind other work.

        `log_source` is where the logs come from that the option `archive_dir` has kept. For jobs with a deadline for
        their progress `newest_line` tells of logs and `stacks` takes stacks; without it, and if the option
        `stall_stacks` says so, they are taken by `commands`, into the archive. Raises OSError if the archive can't be
        written. `fetch` GETs a path of the API server; the option `progress_bind_address` needs it, for the
        keys by which tokens are verified. Raises ListenError if that address is taken. `server_load` says how busy the
        API server is, from 0 to 1; without it, statuses never wait. The `creator`, if given, creates what a job needs
        together; whoever made it closes it, after `stop()`.
        """
        self._client = client
        self._lease_client = lease_client or client
        self._options = options or Options()
        self._clock = clock or SystemClock()
        self.metrics = metrics or OperatorMetrics()
        self._server_load = server_load
        self._creator = creator
        self._on_failure = on_failure
        self._stop = StopSignal()
        self._failure = ""
        self._caches_complete = False
        self._working = False
        self._drained = True
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)
        shard = self._options.shard
        self._keep: Callable[[str], bool] | None = None if shard is None else shard.serves
        self._namespaces = _watched(self._options)
        host = socket.gethostname()
        self.identity = f"{host}_{uuid.uuid4()}"
        self._factory = SharedInformerFactory(
            client, namespaces=self._namespaces, keep=self._keep, clock=self._clock, metrics=self.metrics.informers
        )
        self._recorder = EventRecorder(client, component=OPERATOR_NAME, host=host, clock=self._clock)
        self._plan_lock = threading.Lock()  # guards _plan_options
        self._plan_options = _plan_options(self._options)
        self._informers = ControllerInformers.of(self._factory, self._plan_options.gang)
        self._archive = self._make_archive(log_source)
        self._ended_logs = None if self._archive is None else self._follow_ends(self._archive)
        self._progress = make_progress_server(
            self._options,
            client,
            self._informers,
            fetch=fetch,
            on_authorities=self._trust,
            metrics=self.metrics,
            is_leader=lambda: self.is_leader,
            clock=self._clock,
        )
        self._log_looker = None if newest_line is None else LogLooker(newest_line, clock=self._clock)
        self._stack_taker = None if stacks is not None else self._make_stack_taker(commands)
        self._witnesses = PodWitnesses(logs=self._log_looker, stacks=stacks or self._stack_taker)
        self._controller, self._reconciler = self._wire()
        self._election = self._make_election() if self._options.leader_elect else None
        self.metrics.watch_leadership(lambda: self.is_leader)
        self.metrics.watch_stalls(self._stalled_jobs)
        self.metrics.watch_server_load(server_load)

    # What health checks ask.

    @property
    def is_ready(self) -> bool:
        """Whether the caches are complete and it isn't stopping; a standby is ready, too."""
        return self._caches_complete and not self._stop.is_set() and not self.failure

    @property
    def takes_reports(self) -> bool:
        """Whether programs can report their progress, if that is what the options ask for."""
        return self._progress is None or self._progress.is_ready

    @property
    def progress_port(self) -> int | None:
        """Where reports are taken; None if they are not."""
        return None if self._progress is None else self._progress.port

    def take_reports_at(self, listening: socket.socket) -> None:
        """Take reports at this socket, too, until it stops. The socket is closed then, or now if none are taken."""
        if self._progress is None:
            listening.close()
        else:
            self._progress.listen_also(listening)

    @property
    def is_leader(self) -> bool:
        """Whether this replica works on jobs now."""
        return self._working and (self._election is None or self._election.is_leader)

    @property
    def failure(self) -> str:
        """Why it can't go on; empty while all is well."""
        informer = self._factory.failure
        return self._failure or (f"an informer has failed: {informer}" if informer is not None else "")

    # Life.

    def reload(self, options: Options) -> None:
        """Make pods and PodGroups from now on by the accelerators and the scheduling rules of these options."""
        self._plan_with(accelerators=options.accelerators, scheduling=options.scheduling)

    def _plan_with(self, **changes: object) -> None:
        with self._plan_lock:
            self._plan_options = msgspec.structs.replace(self._plan_options, **changes)
            self._controller.plan_with(self._plan_options)

    def _trust(self, authorities: str) -> None:
        """Have pods from now on trust these authorities of the progress server."""
        if self._progress is not None:
            access = ProgressAccess(self._progress.url, authorities, for_all=self._options.progress_default)
            self._plan_with(progress=access)

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
            # Only running syncs get the whole grace period: otherwise the thread waits for a request without an answer.
            self._thread.join(grace if self._working else min(grace, _IDLE_STOP_SECONDS))
        ended = self._drained and not (self._working and self._thread.is_alive())
        if not self._working:
            # The queue's own thread and the pool run even if the workers never did.
            self._controller.stop(0)
        if self._archive is not None and self._ended_logs is not None:
            self._ended_logs.stop(0)
            self._archive.close()
            self._ended_logs.stop(_IDLE_STOP_SECONDS)
        if self._log_looker is not None:
            self._log_looker.close()
        if self._stack_taker is not None:
            self._stack_taker.close()
        if self._progress is not None:
            self._progress.stop()
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
        if self._progress is not None:
            self._progress.start()
            self._await_certificate()
        if self._election is None:
            self._work(self._stop)
        else:
            self._election.run(self._stop)

    def _await_certificate(self) -> None:
        deadline = self._clock.monotonic() + _CERTIFICATE_SECONDS
        while not self.takes_reports and self._clock.monotonic() < deadline:
            if self._stop.wait(self._clock, 0.02):
                return
        if not self.takes_reports:
            logger.warning("the progress server has no certificate yet: pods that are made now can't report")

    def _work(self, stop: StopSignal) -> None:
        """Work until `stop`, then until running syncs have finished. What the elector calls while we lead.

        It does not give up waiting as `stop()` does: while a sync goes on, the lease must not be given back.
        """
        self._working = True
        self._drained = False
        self._recorder.start()
        self._controller.start()
        self._reconciler.start()
        if self._ended_logs is not None:
            self._ended_logs.start()
        logger.info("working on TFJobs")
        stop.wait(self._clock, None)
        logger.info("finishing running syncs")
        if self._ended_logs is not None:
            self._ended_logs.stop(0)
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
        informers = self._informers
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
                plan=self._plan_options,
            ),
            metrics=self.metrics.jobs,
            archive=self._archive,
            witnesses=self._witnesses,
            progress_of=None if self._progress is None else self._progress.progress_of,
            server_load=self._server_load,
            creator=self._creator,
        )
        reconciler = Reconciler(
            self._client,
            informers,
            controller,
            expectations=expectations,
            namespaces=self._namespaces,
            keep=self._keep or (lambda _: True),
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
            ArchiveBounds(options.archive_max_bytes, options.archive_max_log_bytes, options.archive_timeout),
            report=self._log_was_lost,
            metrics=self.metrics.archive,
            clock=self._clock,
            pod_now=self._pod_now,
        )

    def _follow_ends(self, archive: LogArchive) -> EndedLogs:
        pods, jobs = self._informers.pods, self._informers.jobs.lister
        return EndedLogs(archive, pods, jobs, clock=self._clock, metrics=self.metrics.queues)

    def _pod_now(self, pod: Pod) -> Pod | None:
        try:
            now = self._informers.pods.lister.get(pod.metadata.namespace, pod.metadata.name)
        except ObjectNotFound:
            return None
        return now if now.metadata.uid == pod.metadata.uid else None

    def _stalled_jobs(self) -> Mapping[str, int]:
        """How many jobs make no progress, by namespace; nothing where another replica tells."""
        if not self.is_leader:
            return {}
        jobs = self._informers.jobs.lister.list()
        return Counter(job.metadata.namespace for job in jobs if has_condition(job, ConditionType.STALLED))

    def _make_stack_taker(self, commands: CommandRunner | None) -> StackTaker | None:
        if not self._options.stall_stacks or commands is None or self._archive is None:
            return None
        return StackTaker(commands, self._archive.keep_stacks, self._tell, clock=self._clock)

    def _log_was_lost(self, job: ObjectMeta, message: str) -> None:
        self._tell(job, "Warning", "LogsNotArchived", message)

    def _tell(self, job: ObjectMeta, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._recorder.event(ObjectReference.to(TFJOBS.api_version, TFJOBS.kind, job), kind, reason, message)

    def _make_election(self) -> Election:
        return Election(
            self._lease_client,
            self._options,
            identity=self.identity,
            lead=self._work,
            fail=self._fail,
            clock=self._clock,
        )


def _watched(options: Options) -> tuple[str, ...]:
    """The namespaces to watch one by one, "" for all. Those of other shards are left out, unless none is left."""
    named = options.namespace or ("",)
    return tuple(one for one in named if options.shard is None or options.shard.serves(one)) or named


def _plan_options(options: Options) -> PlanOptions:
    return PlanOptions(
        cluster_domain=options.cluster_domain,
        evaluator_in_cluster=options.evaluator_in_cluster,
        restart_delay_base=options.restart_delay_base,
        restart_delay_cap=options.restart_delay_cap,
        accelerators=options.accelerators,
        scheduling=options.scheduling,
        default_clean_pod_policy=options.default_clean_pod_policy,
        default_ps_image=options.default_ps_image,
        default_tensorboard_image=options.default_tensorboard_image,
        gang=gang_scheduler(options.gang_scheduler_name),
        naming=UNIQUE_NAMES if options.unique_names else PLAIN_NAMES,
        network=Network(options.default_network),
        first_status_period=_FIRST_STATUS_SECONDS,
        max_status_delay=options.max_status_delay,
    )
