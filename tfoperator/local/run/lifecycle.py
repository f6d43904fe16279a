"""Runs a run's jobs in its own thread: creates them, watches them until they have ended or must end, and stops them.

This thread makes decisions, and shows nothing. The thread puts calls of the `RunListener` into a queue, and another
thread makes these calls. So a slow terminal, or millions of log lines, can't delay the response to Ctrl-C, to a
timeout, or to the end of a job.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.private_files import write_private
from tfoperator.informers import Callbacks, SharedInformerFactory
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError, NotFoundError
from tfoperator.kube.protocol.resources import EVENTS, PODS
from tfoperator.kube.protocol.verbs import WithJson, with_json
from tfoperator.kube.views.event import Event, decode_event
from tfoperator.kube.views.objects import Pod, decode_pod
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.manifest_resources import apply
from tfoperator.local.run.container_output import RunListener
from tfoperator.local.run.finished import may_be_ending
from tfoperator.local.run.kept import KUBECONFIG
from tfoperator.local.run.left_volumes import remove_left_volumes
from tfoperator.local.run.report_facts import quiet_seconds
from tfoperator.local.run.results import RunOutcome
from tfoperator.report.curves import Curves, Point

logger = logging.getLogger(__name__)

T = TypeVar("T")

_USAGE_SECONDS = 2.0  # seconds between two measurements for the listener
_TICK_SECONDS = 0.25  # maximum seconds between two checks of a deadline
_STACKS_TIMEOUT = 15.0  # seconds for all stacks of a run that has timed out
_PEERS_SECONDS = 2.0  # seconds that workers of a job that has succeeded have to end by themselves
_SYNC_SECONDS = 10.0  # maximum seconds until the watches of jobs, pods and events have begun
_STOP_MARGIN = 15.0  # seconds after the longest grace period until a run stops waiting for pods to end


class ControlPlaneFailed(Exception):
    """The operator has failed, so the run had to end."""


class _Abandoned(Exception):
    """Ends the lifecycle's thread after a call of `abandon`: the run ends without an outcome."""


class RunSnapshot(NamedTuple):
    """The last state of jobs and pods that was seen, all events, and the curves of the jobs' metrics.

    `curves` maps the UID of a job and the name of a metric to the points of this metric's curve.
    """

    jobs: tuple[WithJson[TFJob], ...]
    pods: tuple[WithJson[Pod], ...]
    events: tuple[Event, ...]
    curves: dict[str, dict[str, list[Point]]]


class JobLifecycle:
    """Runs objects on a control plane until their jobs have ended. Call `start` and `join` once each.

    This object gets reports of changes from other threads. The object's own thread handles these reports, one after the
    other, and puts a call of the listener into `news` for each change. The thread that owns this object must take these
    calls out of the queue and make them. When `join` has returned, the attributes no longer change.
    """

    def __init__(
        self,
        objects: Sequence[Mapping[str, Any]],
        listener: RunListener,
        news: queue.SimpleQueue[Callable[[], object]],
        *,
        namespace: str,
        timeout: float | None,
    ) -> None:
        self._objects = objects
        self._listener = listener
        self._news = news
        self._namespace = namespace
        self._timeout = timeout
        # The calls that this object's own thread makes. The queue's put is reentrant, so a signal handler may call it.
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.jobs: dict[str, WithJson[TFJob]] = {}
        """The last state of each job that was seen, by UID."""
        self.deleted: set[str] = set()
        """The UIDs of the jobs that were deleted before they had ended."""
        self.curves: dict[str, Curves] = {}
        """The curves of the metrics of each job, by the UID of the job."""
        self.pods: dict[str, WithJson[Pod]] = {}
        """Every pod of the run, by UID."""
        self.events: list[Event] = []
        self.outcome = RunOutcome.FAILED
        """How the run ended."""
        self._state_lock = threading.Lock()  # guards what was seen (jobs, curves, pods, events), for other threads
        self._changes = 0
        self.quiet: dict[str, float] = {}
        """The seconds from the last write to each log until the run reached its time limit, by the path of the log. The
        dictionary is empty if the run did not reach its time limit.
        """
        self._alive: dict[str, Pod] = {}  # by uid; the pods of jobs that still exist
        self.operator_failed = self._later(self._fail)
        """Called with the reason if the operator has failed. Any thread may call it."""
        self._interrupts = 0
        self._last: tuple[Event, ...] = ()  # all events that the API server had at the end
        self._over = False  # the jobs' end was recorded: later changes are clean-up
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def start(self, plane: ControlPlane) -> None:
        """Start the thread. This thread starts the control plane, and stops it at the end."""
        self._thread = threading.Thread(target=self._run, args=(plane,), name="run-lifecycle")
        self._thread.start()

    def interrupt(self) -> None:
        """End the run gracefully. On a second call, end it at once. A signal handler may call it."""
        self._calls.put(self._count_interrupt)

    def page_link(self, url: str) -> None:
        """Show a link that opens the run's page in a browser, unless the jobs have ended. Any thread may call it."""
        if not self._over:
            self._notify(partial(self._listener.page_link, url))

    @property
    def interrupted(self) -> bool:
        """Whether the user has requested the end of the run."""
        return self._interrupts > 0

    @property
    def ended(self) -> bool:
        """Whether everything has been stopped."""
        return self._thread is not None and not self._thread.is_alive()

    def seen(self, since: int = -1) -> tuple[int, RunSnapshot] | None:
        """Return the number of changes so far, and the run's state as it was last observed.

        Return None if this number equals `since`. Any thread may call it.
        """
        with self._state_lock:
            if self._changes == since:
                return None
            jobs, pods = tuple(self.jobs.values()), tuple(self.pods.values())
            curves = {uid: curve.points() for uid, curve in self.curves.items()}
            return self._changes, RunSnapshot(jobs, pods, tuple(self.events), curves)

    def look_back(self, client: Client) -> None:
        """List all events, so that the run also handles the events that the watch did not deliver before the end.

        `ControlPlane.stop` calls this method when only the API server still runs, so no more events will come.
        """
        events = client.list(EVENTS, "", decode_event).items
        self._last = tuple(sorted(events, key=lambda event: int(event.metadata.resource_version)))

    def abandon(self) -> None:
        """End the run without an outcome and stop everything, unless the run has already ended."""
        self._calls.put(_abandon)

    def join(self) -> None:
        """Wait until the run has ended.

        Raises the error that ended it: KubeError, OSError, RuntimeUnavailable, ControlPlaneFailed.
        """
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, plane: ControlPlane) -> None:
        began = time.monotonic()
        try:
            plane.start()
            try:
                remove_left_volumes(plane.run_dir)  # the start has ended the processes that used these volumes
                with _announced(plane):
                    self._live(plane, None if self._timeout is None else began + self._timeout)
            finally:
                plane.stop()
            self._handle_waiting()
            self._handle_missing()
        except _Abandoned:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised again by `join`
            self._error = error

    def _live(self, plane: ControlPlane, deadline: float | None) -> None:
        informers = self._watch(plane)
        try:
            if self._listener.shows_usage:
                plane.meter.subscribe(lambda usage: self._notify(partial(self._listener.used, usage)), _USAGE_SECONDS)
            apply(plane.client, self._objects, self._namespace)
            expected = sum(1 for obj in self._objects if obj.get("kind") == TFJOBS.kind)
            self.outcome = self._until_finished(expected, deadline)
            self._over = True
            plane.hold_page()
            if self.outcome is RunOutcome.TIMED_OUT:
                self.quiet = quiet_seconds((log for *_, log in plane.agent.logs.all()), time.time())
                plane.agent.take_stacks(tuple(self._alive), _STACKS_TIMEOUT)
            if self.outcome is RunOutcome.SUCCEEDED:
                self._let_peers_end()
            self._notify(partial(self._listener.stopping, self.outcome))
            self._stop_jobs(plane)
        finally:
            informers.stop()

    def _watch(self, plane: ControlPlane) -> SharedInformerFactory:
        informers, later = SharedInformerFactory(plane.client), self._later
        jobs = Callbacks(changed=later(self._saw_job), gone=later(self._lost_job))
        informers.informer(TFJOBS, with_json(decode_tfjob)).add_handler(jobs)
        pods = Callbacks(changed=later(self._saw_pod), gone=later(self._lost_pod))
        informers.informer(PODS, with_json(decode_pod)).add_handler(pods)
        informers.informer(EVENTS, decode_event).add_handler(Callbacks(changed=later(self._saw_event)))
        informers.start()
        # Only a watch that has begun before a job was created shows a job that is deleted at once.
        informers.wait_for_sync(_SYNC_SECONDS)
        return informers

    def _until_finished(self, expected: int, deadline: float | None) -> RunOutcome:
        while True:
            if self._interrupts:
                return RunOutcome.INTERRUPTED
            ends = {uid: final_condition(job.view) for uid, job in self.jobs.items()}
            if len(ends) >= expected and all(end is not None or uid in self.deleted for uid, end in ends.items()):
                succeeded = all(end is not None and end.type == ConditionType.SUCCEEDED for end in ends.values())
                return RunOutcome.SUCCEEDED if succeeded else RunOutcome.FAILED
            if deadline is not None and time.monotonic() >= deadline:
                return RunOutcome.TIMED_OUT
            self._next(_TICK_SECONDS if deadline is None else min(_TICK_SECONDS, max(0.0, deadline - time.monotonic())))

    def _let_peers_end(self) -> None:
        """Wait at most `_PEERS_SECONDS` for workers that may be about to end.

        Workers that train together end within a second of each other. Without this wait, the run would stop the last of
        them.
        """
        until = time.monotonic() + _PEERS_SECONDS
        while not self._interrupts and (left := until - time.monotonic()) > 0:
            jobs = {uid: job.view for uid, job in self.jobs.items()}
            if not any(may_be_ending(pod, jobs) for pod in self._alive.values()):
                return
            self._next(min(_TICK_SECONDS, left))

    def _stop_jobs(self, plane: ControlPlane) -> None:
        """Delete the jobs, which also deletes their pods. Wait until the pods have ended."""
        for job in tuple(self.jobs.values()):
            meta = job.metadata
            try:
                if meta.finalizers:  # their owners run elsewhere, and the pods stay as long as the job
                    change = {"metadata": {"uid": meta.uid, "finalizers": None}}
                    plane.client.patch(TFJOBS, meta.namespace, meta.name, change, decode_tfjob)
                plane.client.delete(TFJOBS, meta.namespace, meta.name, uid=meta.uid, propagation_policy="Background")
            except NotFoundError:
                continue
            except KubeError as error:
                logger.warning("can't delete TFJob %s: %s", meta.key, error)
        began = time.monotonic()
        hurried = False
        while self._alive and time.monotonic() < began + self._longest_grace() + _STOP_MARGIN:
            if self._interrupts > 1 and not hurried:
                hurried = True
                plane.agent.kill_all()
            self._next(_TICK_SECONDS)

    def _longest_grace(self) -> float:
        return max((pod.metadata.deletion_grace_period_seconds or 0.0 for pod in self._alive.values()), default=0.0)

    def _next(self, timeout: float) -> None:
        try:
            self._calls.get(timeout=timeout)()
        except queue.Empty:
            pass
        else:
            self._handle_waiting()

    def _handle_waiting(self) -> None:
        while True:
            try:
                self._calls.get_nowait()()
            except queue.Empty:
                return

    def _handle_missing(self) -> None:
        """Handle the events that the watch has not delivered before the end of the run."""
        delivered = {(event.metadata.uid, event.metadata.resource_version) for event in self.events}
        for event in self._last:
            if (event.metadata.uid, event.metadata.resource_version) not in delivered:
                self._saw_event(event)

    def _later(self, handle: Callable[[T], object]) -> Callable[[T], None]:
        """Return a function for other threads. A call of the returned function makes this object's thread call
        `handle`.
        """
        return lambda news: self._calls.put(partial(handle, news))

    def _notify(self, call: Callable[[], object]) -> None:
        self._news.put(call)

    # The methods below run in this object's own thread.

    def _saw_job(self, job: WithJson[TFJob]) -> None:
        if self._over:
            return
        uid, progress = job.metadata.uid, job.view.status.progress
        with self._state_lock:
            self._changes += 1
            self.jobs[uid] = job
            if progress is not None:
                self.curves.setdefault(uid, Curves()).add(progress, datetime.now(UTC))
        self._notify(partial(self._listener.job_changed, job.view))

    def _lost_job(self, job: WithJson[TFJob]) -> None:
        if self._over:
            return
        self._saw_job(job)
        if final_condition(job.view) is None:
            self.deleted.add(job.metadata.uid)

    def _saw_pod(self, pod_with_json: WithJson[Pod]) -> None:
        pod = pod_with_json.view
        with self._state_lock:
            self._changes += 1
            self.pods[pod.metadata.uid] = pod_with_json
        if pod.metadata.controller is not None:
            self._alive[pod.metadata.uid] = pod
        self._notify(partial(self._listener.pod_changed, pod))

    def _lost_pod(self, pod: WithJson[Pod]) -> None:
        self._alive.pop(pod.metadata.uid, None)
        self._notify(partial(self._listener.pod_gone, pod.view))

    def _saw_event(self, event: Event) -> None:
        with self._state_lock:
            self._changes += 1
            self.events.append(event)
        self._notify(partial(self._listener.event, event))

    def _fail(self, reason: str) -> None:
        if not self._over:
            raise ControlPlaneFailed(reason)

    def _count_interrupt(self) -> None:
        self._interrupts += 1


@contextmanager
def _announced(plane: ControlPlane) -> Iterator[None]:
    """Keep a kubeconfig in the run's directory while the run goes on. Other commands need it to change the jobs.

    If the file can't be written, for example because the disk is full, the run goes on without it.
    """
    path = plane.run_dir / KUBECONFIG
    try:
        write_private(path, json.dumps(plane.endpoint.kubeconfig()).encode())
    except OSError as error:
        logger.warning("can't write %s, so other commands can't change the jobs of this run: %s", path, error)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _abandon() -> None:
    raise _Abandoned
