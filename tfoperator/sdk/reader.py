"""The methods of `TFJobClient` that read and wait: conditions, reports, stacks, events and usage of a job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager

import msgspec

from tfoperator.api.kueue.queues import is_multikueue
from tfoperator.api.replicas.names import job_selector
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import has_condition
from tfoperator.api.v1.status import JobCondition
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.kube import by_name
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import EVENTS
from tfoperator.kube.protocol.verbs import WatchEventType
from tfoperator.kube.views.event import decode_event
from tfoperator.kube.watching.following import Change, Follower
from tfoperator.report.report import Report, make_report
from tfoperator.sdk.errors import JobDeleted, JobElsewhere, JobFailed, JobNotFound, job_errors
from tfoperator.sdk.events import JobEvent, events_of
from tfoperator.sdk.job_access import JobAccess
from tfoperator.sdk.queues import JobQueue, cluster_of, job_queue
from tfoperator.sdk.reports.culprit import Culprit, find_culprit
from tfoperator.sdk.reports.job_report import job_facts, kubectl_logs
from tfoperator.sdk.stacks import ReplicaStacks, take_stacks
from tfoperator.sdk.states import ReplicaFilter, is_prepared
from tfoperator.sdk.usage import PodUsage, measured_pods
from tfoperator.sdk.waiting import checked_conditions, is_reached, late

DEFAULT_WAIT_TIMEOUT = 600.0
"""The default `wait_timeout`, in seconds. It is the same as in the Go operator's TrainingClient."""


class JobReader(JobAccess):
    """The part of `TFJobClient` with the methods that read and wait."""

    # Conditions.

    def get_job_conditions(
        self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None
    ) -> list[JobCondition]:
        """Return the job's conditions, without the condition types that only tfoperator has.

        The latest condition is the last. If `job` is given, the conditions come from this object without a request. The
        conditions that only tfoperator has are in `job.status.operator_conditions`.
        """
        return list((job or self.get_job(name, namespace)).status.conditions)

    def is_job_created(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Return whether the job has the condition Created, which the operator sets when it first sees the job."""
        return self._has(ConditionType.CREATED, name, namespace, job)

    def is_job_running(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Return whether the chief is running. In a job without a chief, return whether any worker is running."""
        return self._has(ConditionType.RUNNING, name, namespace, job)

    def is_job_restarting(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Return whether the job has the condition Restarting."""
        return self._has(ConditionType.RESTARTING, name, namespace, job)

    def is_job_suspended(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Return whether the job has the condition Suspended."""
        return self._has(ConditionType.SUSPENDED, name, namespace, job)

    def is_job_succeeded(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Return whether the job has the condition Succeeded."""
        return self._has(ConditionType.SUCCEEDED, name, namespace, job)

    def is_job_failed(self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None) -> bool:
        """Return whether the job has the condition Failed."""
        return self._has(ConditionType.FAILED, name, namespace, job)

    # Waiting.

    def wait_for_job_conditions(
        self,
        name: str,
        namespace: str | None = None,
        expected_conditions: Collection[str] = (ConditionType.SUCCEEDED,),
        wait_timeout: float | None = DEFAULT_WAIT_TIMEOUT,
        callback: Callable[[TFJob], object] | None = None,
    ) -> TFJob:
        """Watch the job until one of the conditions is true. Return the state that the job then has.

        `wait_timeout` is in seconds. None means no limit, and 0 means that the job is read only once. `callback` is
        called with every state of the job. A wait for Running or Created also ends, without an error,
        if the job has already succeeded.

        Raises WaitTimeout (a TimeoutError) if no condition is true after `wait_timeout` seconds. Raises JobFailed if
        the job fails and the caller does not wait for Failed; the error has the last log lines of the replica that
        failed first, if they are available. Raises JobEnded if the job succeeds, so that none of the conditions can
        become true any more. Raises JobDeleted, JobNotFound, and ValueError for conditions that don't exist.
        """
        expected, where = checked_conditions(expected_conditions), self._where(namespace)
        last: TFJob | None = None
        try:
            with self._changes(where, name, wait_timeout) as changes:
                for change in changes:
                    if change.type is WatchEventType.DELETED:
                        raise JobDeleted(where, name)
                    if change.object is None and last is None:
                        raise JobNotFound(where, name)
                    last = change.object or last
                    if change.object is not None and callback is not None:
                        callback(change.object)
                    if last is not None and is_reached(last, expected):
                        return last
        except JobFailed as error:
            raise JobFailed(error.job, error.condition, self._culprit(error.job)) from None
        queue = None if last is None else job_queue(self._client, last)
        why = f"; queue {queue}" if queue is not None and queue.waits else ""
        raise late(where, name, f"is not {' or '.join(sorted(expected))}", wait_timeout, last, why)

    def wait_for_job_deletion(
        self, name: str, namespace: str | None = None, wait_timeout: float | None = DEFAULT_WAIT_TIMEOUT
    ) -> None:
        """Wait until the TFJob itself no longer exists; its pods may still exist.

        Raises WaitTimeout if the TFJob still exists after `wait_timeout` seconds.
        """
        where = self._where(namespace)
        last: TFJob | None = None
        with self._changes(where, name, wait_timeout) as changes:
            for change in changes:
                if change.type is WatchEventType.DELETED or (change.object is None and last is None):
                    return
                last = change.object or last
        raise late(where, name, "is still there", wait_timeout, last)

    @contextmanager
    def _changes(self, where: str, name: str, timeout: float | None) -> Iterator[Iterator[Change[TFJob]]]:
        """Return the changes of a job, as `Follower` yields them, for at most `timeout` seconds (None: no limit)."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        selection, clock = by_name(name), self._clock
        follower = Follower(self._client, TFJOBS, where, decode_tfjob, selection, deadline=deadline, clock=clock)
        with job_errors(where, name), closing(iter(follower)) as changes:
            yield changes

    def get_job_queue(
        self, name: str = "", namespace: str | None = None, *, job: TFJob | None = None
    ) -> JobQueue | None:
        """Return the job's state in its Kueue queue, and why it waits.

        If the job has no queue, return None without a request. If the state can't be read, the result's `message`
        contains the error. Raises JobNotFound.
        """
        return job_queue(self._client, job or self.get_job(name, namespace))

    # The job's pods.

    def get_job_report(self, name: str, namespace: str | None = None) -> Report:
        """Return a report that shows why the job failed or does not continue: see `tfoperator.report`.

        Logs of deleted pods come from the log archive. Raises JobNotFound, or OSError if the archive can't be read.
        There is no report about a deleted job. For an ended run of `tfoperator run`, the method returns the report that
        the run itself made, which used more data than the run's records contain.
        """
        job = self.get_job(name, namespace)
        kept = None if self._run is None else self._run.reports.get(job.metadata.uid)
        if kept is not None:
            return kept
        pods = self._pods_of(job, ReplicaFilter())
        archived = self._archived(name, namespace, job.metadata.uid, ReplicaFilter())
        # The events of the namespace are listed only if the report may need them.
        may_have_events = job.status.disruptions or any(is_prepared(pod, job, self._clock.now()) for pod in pods)
        events = self.get_job_events(name, namespace) if may_have_events else []
        place = kubectl_logs if self._run is None else self._run.log_place
        now = self._clock.now()
        report = make_report(job_facts(job, pods, archived, self._client, now=now, events=events, place=place))
        if is_multikueue(job):
            elsewhere = JobElsewhere(job, cluster_of(self._client, job))
            report = msgspec.structs.replace(
                report, advice=(f"{elsewhere}. A report from that cluster has more details.",)
            )
        return report

    def get_job_stacks(
        self,
        name: str,
        namespace: str | None = None,
        replica_type: str | None = None,
        replica_index: int | None = None,
    ) -> list[ReplicaStacks]:
        """Return the stacks of the running replicas' Python threads.

        The call blocks for some seconds. In a cluster, the method runs a command in each pod. This needs the right
        `create pods/exec`. Raises JobNotFound, or JobElsewhere if MultiKueue runs the job on another cluster.
        """
        which = ReplicaFilter(replica_type=replica_type, replica_index=replica_index)
        job = self.get_job(name, namespace)
        self._be_here(job)
        return take_stacks(self._client, self._pods_of(job, which))

    def get_job_events(self, name: str, namespace: str | None = None) -> list[JobEvent]:
        """Return the events of the job, and of its pods, services and pod group, the oldest first.

        Raises JobNotFound.
        """
        job = self.get_job(name, namespace)
        return events_of(job, self._list(EVENTS, job.metadata.namespace, decode_event, ""))

    def get_job_usage(self, name: str, namespace: str | None = None) -> dict[str, PodUsage]:
        """Return the current use of CPUs, memory and GPUs by each pod of the job, by pod name.

        The result is empty if the cluster has no metrics API. Never raises. A pod that has just started, or has ended,
        may be missing.
        """
        measured = measured_pods(self._client, self._where(namespace), job_selector(name))
        return {pod.name: pod.usage for pod in measured}

    def _culprit(self, job: TFJob) -> Culprit | None:
        try:
            pods = self._pods_of(job, ReplicaFilter())
            meta = job.metadata
            archived = self._archived(meta.name, meta.namespace, meta.uid, ReplicaFilter())
            return find_culprit(job, pods, archived, self._client)
        except (KubeError, OSError):  # the job's failure matters more
            return None

    def _has(self, condition: ConditionType, name: str, namespace: str | None, job: TFJob | None) -> bool:
        return has_condition(job or self.get_job(name, namespace), condition)
