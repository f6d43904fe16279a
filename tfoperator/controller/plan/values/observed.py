"""The input of `plan()`: the known facts about one job, and an administrator's options for all jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tfoperator.api.replicas.data_service import DataServiceMember, member_of, member_suffix, started_members
from tfoperator.api.replicas.names import replica_of
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.data_service import DataServiceStatus
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import JobUsage, ReplicaStatus, TFJobStatus, parse_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.api.waiting import Reason
from tfoperator.base.clock import epoch_seconds, seconds_between
from tfoperator.controller.kinds import OwnedKind
from tfoperator.controller.pods.manifests import restarts_together
from tfoperator.controller.pods.options import PodOptions
from tfoperator.controller.pods.pod_groups import PodGroup
from tfoperator.kube.views.deployments import Deployment
from tfoperator.kube.views.objects import ObjectMeta, Pod, Service

_NO_STATUS = ReplicaStatus()
_NO_DATA_SERVICE = DataServiceStatus()

Refusals = Mapping[tuple[ReplicaType, int] | OwnedKind, Reason]
"""The reasons why the API server refuses to create objects: by replica, or by kind for an object that all replicas
need.
"""


class Unseen(msgspec.Struct, frozen=True):
    """Requests of this process to the API server that have no visible result in the caches yet."""

    awaited: frozenset[tuple[str, str]] = frozenset()
    """The pairs of replica type and kind, such as `("worker", "pods")`, for which objects must still appear in the
    caches or vanish. The type is empty for objects that belong to no replica.
    """
    deleted: frozenset[str] = frozenset()
    """The UIDs of the objects that must vanish."""


class UnkeptLogs(msgspec.Struct, frozen=True):
    """The pods (by UID) whose logs are not in the archive yet, and the seconds that a deletion waits for these logs."""

    pods: frozenset[str]
    timeout: float


class Comparison(msgspec.Struct, frozen=True):
    """The reconciler's comparison of a job's cached objects with the job's objects in the API server.

    The status does not show the comparison yet. The next status write sets `status.lastReconcileTime` to `time`.
    `write` means that the status is written because of the comparison, even if nothing else in the status changes.
    """

    time: datetime
    write: bool


class NewestLine(msgspec.Struct, frozen=True):
    """The newest line of a pod's log."""

    time: datetime
    """When the line was written, as far as the operator knows it."""
    stamp: datetime | None
    """When the line was written, by the node's clock; None if the log has no line."""
    stopped: bool = False
    """Whether the program was found stopped (SIGSTOP)."""
    is_new: bool = False
    """Whether the previous reading did not find this line, or there was no previous reading."""


class LogLines(msgspec.Struct, frozen=True):
    """The result of the last reading of a job's logs: the newest line of each pod (by UID) whose log was read.

    `looked` is when that reading began; None before the first reading. `problem` is the reason if nothing could be
    read.
    """

    newest: Mapping[str, NewestLine] = {}
    looked: datetime | None = None
    problem: str = ""


class QueueGate(msgspec.Struct, frozen=True):
    """Whether a job in a queue may have pods."""

    reason: str
    """The reason of the condition Admitted."""
    message: str = ""
    """Why the job may not have pods; for an admitted job, the name of the ClusterQueue that gave the quota."""
    admitted: bool = False
    quota: Mapping[str, int] = {}
    """The number of pods for which an admitted job has quota, by replica type in lower case. This number is less than
    the number of replicas if some replicas have ended and their quota was given back.
    """
    workers: int | None = None
    """The number of workers that the spec of an admitted elastic job requests; Kueue may have admitted fewer workers.
    None for other jobs.
    """


class Observed(msgspec.Struct, frozen=True):
    """The state of one job in the caches, and the facts about it in the controller's memory.

    `pods`, `services` and `deployments` are the objects whose controller has this job's UID, in any order. Objects that
    are being deleted are included.
    """

    job: TFJob
    """The job with its defaults (`tfoperator.api.defaults.default`) and the newest known status."""
    pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    problems: tuple[str, ...] = ()
    """The validation errors of the job (and the lines of `decode_error`), each as `field: message`."""
    pod_group: PodGroup | None = None
    """The PodGroup of the job; used only with a gang scheduler."""
    priorities: Mapping[str, int] = {}
    """The priorities of the PriorityClasses (`priorities_of`); used only with a gang scheduler."""
    deployments: tuple[Deployment, ...] = ()
    unseen: Unseen = Unseen()
    unkept_logs: UnkeptLogs | None = None
    known_for: float = 0.0
    """The number of seconds since this process first synced the job."""
    comparison: Comparison | None = None
    progress: TrainingProgress | None = None
    """The progress that the job has reported so far, which may be newer than the job's status; None if this operator
    receives no reports.
    """
    log_lines: LogLines | None = None
    """The last reading of the job's logs; None if this operator reads no logs."""
    stacks_taken: datetime | None = None
    """When stacks of the job's threads were last taken (1970 if never); None if this operator takes no stacks."""
    edited_templates: tuple[str, ...] = ()
    """The replica types for which new pods would differ from the pods at the last sync; also `spec.dataService` if new
    pods of the data service would differ.
    """
    uncounted_types: tuple[str, ...] = ()
    """The replica types, as the job spells them, that Kueue's quota doesn't count."""
    status_age: float = math.inf
    """The number of seconds since this process wrote the status."""
    refused: Mapping[str, str] = {}
    """The reason why an object that seems to belong to the job could not be adopted or released, by object. Decisions
    don't depend on these reasons.
    """
    not_created: Refusals | None = None
    """Why the API server refused to create objects; None if this process has not tried to create any object yet."""
    gate: QueueGate | None = None
    """Whether the job's queue allows pods; None unless the operator itself handles the job's Workload in Kueue."""
    usage: JobUsage | None = None
    """The job's usage from the last plan of this process, which may be newer than the status."""

    @property
    def is_suspended(self) -> bool:
        """Whether a user or a queue suspends the job."""
        return self.job.spec.suspended or self.held

    @property
    def held(self) -> bool:
        """Whether the job is in a queue that allows it no pods now."""
        return self.gate is not None and not self.gate.admitted

    @property
    def pods_of_unkept_logs(self) -> frozenset[str]:
        """The UIDs of pods whose logs are not in the archive yet."""
        return frozenset() if self.unkept_logs is None else self.unkept_logs.pods

    @property
    def reported(self) -> TrainingProgress | None:
        """The newer progress of two: the progress in the status, and the progress in the last report.

        A progress without the time of its report does not count. None if neither has this time.
        """
        recorded, newest = self.job.status.progress, self.progress
        if recorded is None and newest is None:
            return None
        timed = [report for report in (recorded, newest) if report is not None and report.last_updated_time]
        return max(timed, key=lambda report: epoch_seconds(report.last_updated_time), default=None)


class PlanOptions(PodOptions, frozen=True, kw_only=True):
    """An administrator's options for pods and for the decisions of the plan. Times are seconds.

    The n-th restart of a replica comes `restart_delay_base * 2**(n-1)` after the start of the program that has ended,
    but at most `restart_delay_cap` after that start. If this time is over, or the base is 0, the restart comes at once.
    """

    restart_delay_base: float
    restart_delay_cap: float
    default_clean_pod_policy: str
    """The `cleanPodPolicy` of jobs that set no policy. If this is empty, too, the pods that still run when such a job
    has ended are stopped (see `cleanup`).
    """
    node_lost_margin: float = 30.0
    """The time between the moment when the graceful deletion of a pod on a lost node should have been over, and the
    deletion by force.
    """
    first_status_period: float = 0.0
    """The time for which the first status of a job waits, so that it can be written together with the second status."""
    counts_period: float = 0.0
    """The minimum time between two writes of a status, if only counts have changed (see `status`)."""
    queue_text_period: float = 0.0
    """The minimum time between two writes of the text about why a job waits in its queue, if only numbers in this text
    have changed.
    """


def clean_pod_policy(job: TFJob, options: PlanOptions) -> str:
    """Return the job's `cleanPodPolicy`, else the administrator's; empty if neither is set."""
    return job.spec.policy.clean_pod_policy or options.default_clean_pod_policy


def with_own_deletions(observed: Observed, now: datetime) -> Observed:
    """Return the observed state in which each pod that this process has deleted has a `deletion_timestamp`.

    A pod whose deletion the cache does not show yet gets the timestamp `now`. Otherwise such a pod would count as
    alive. If the job was suspended and resumed at once, the pod would count as started again, and its end would later
    count as a loss.
    """
    deleted = observed.unseen.deleted
    if not deleted:
        return observed

    def marked(pod: Pod) -> Pod:
        meta = pod.metadata
        if meta.deletion_timestamp is not None or meta.uid not in deleted:
            return pod
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, deletion_timestamp=now))

    return msgspec.structs.replace(observed, pods=tuple(map(marked, observed.pods)))


def deciding_pods(observed: Observed, status: TFJobStatus, since: datetime | None) -> Sequence[ObjectMeta]:
    """Return the pods that make `status` count a new restart, start or end, and that were created until `since`.

    `since` is the time at which this process became the leader; if it is None, return no pods. A cache that is behind
    may show an old state of such a pod, or a pod that no longer exists. So the caller must look these pods up in the
    API server before it writes `status`: after a pod counts as started, its absence counts as a loss.
    """
    old = [pod for pod in observed.pods if _is_older(pod.metadata, since)]
    return [pod.metadata for pod in old if _decides(pod, observed.job, status)]


def _decides(pod: Pod, job: TFJob, after: TFJobStatus) -> bool:
    replica, before = replica_of(pod.metadata.labels), job.status
    if replica is None:
        member = member_of(pod.metadata.labels)
        return member is not None and _decides_on_member(member, before.data_service, after.data_service)
    if after.job_restarts > before.job_restarts:
        return pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed"
    replica_type, index = replica
    was, now = (status.replica_statuses.get(replica_type, _NO_STATUS) for status in (before, after))
    if now.restart_counts.get(str(index), 0) > was.restart_counts.get(str(index), 0):
        return True
    if index in parse_indexes(now.started_indexes) and index not in parse_indexes(was.started_indexes):
        return True
    # Where all replicas restart together, a replica that had succeeded runs again after a suspension.
    ends = index in parse_indexes(now.completed_indexes) and index not in parse_indexes(was.completed_indexes)
    return ends and restarts_together(job)


def _decides_on_member(
    member: DataServiceMember, before: DataServiceStatus | None, after: DataServiceStatus | None
) -> bool:
    """Return whether the status newly counts a restart of a member of the data service, or newly records its start."""
    was, now = before or _NO_DATA_SERVICE, after or _NO_DATA_SERVICE
    suffix = member_suffix(member)
    if now.restart_counts.get(suffix, 0) > was.restart_counts.get(suffix, 0):
        return True
    return member in started_members(now) and member not in started_members(was)


def _is_older(pod: ObjectMeta, than: datetime | None) -> bool:
    created = pod.creation_timestamp
    return than is not None and created is not None and seconds_between(created, than) >= 0
