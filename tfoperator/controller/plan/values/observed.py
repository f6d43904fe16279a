"""The input of `plan()`: the known facts about one job, and an administrator's options for all jobs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tfoperator.api.replicas.data_service import DataServiceMember, member_of, member_suffix, started_members
from tfoperator.api.replicas.names import replica_of
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import (
    DataServiceStatus,
    JobUsage,
    ReplicaStatus,
    TFJobStatus,
    TrainingProgress,
    parse_indexes,
)
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
"""Reasons why the API server refuses to create objects: by replica, or by the kind of an object that all need."""


class Unseen(msgspec.Struct, frozen=True):
    """Requests of this process to the API server whose results the caches do not show yet.

    `awaited` are the objects that are still to appear or to vanish: by replica type (in lower case, empty for objects
    of no replica) and kind. `deleted` are the UIDs of those that are to vanish.
    """

    awaited: frozenset[tuple[str, str]] = frozenset()
    deleted: frozenset[str] = frozenset()


class UnkeptLogs(msgspec.Struct, frozen=True):
    """The pods (by UID) whose logs are not in the archive yet, and the seconds that a deletion waits for them."""

    pods: frozenset[str]
    timeout: float


class Comparison(msgspec.Struct, frozen=True):
    """A comparison of the caches with the live state that is still to be recorded in `status.lastReconcileTime`.

    `write` asks for a status write of its own if no other comes along.
    """

    time: datetime
    write: bool


class NewestLine(msgspec.Struct, frozen=True):
    """The newest line of a pod's log: the time of writing as far as known here, and the time by its node's clock.

    `stamp` is None for a log without a line. `stopped`: the program is seen to be stopped (SIGSTOP). `is_new`: the look
    before did not find this line, or there was none before.
    """

    time: datetime
    stamp: datetime | None
    stopped: bool = False
    is_new: bool = False


class LogLines(msgspec.Struct, frozen=True):
    """The result of the last look at a job's logs: the newest line of each pod (by UID) that was read.

    `looked` is when that look began; None before the first. `problem` is the reason if nothing could be read.
    """

    newest: Mapping[str, NewestLine] = {}
    looked: datetime | None = None
    problem: str = ""


class QueueGate(msgspec.Struct, frozen=True):
    """Whether a job in a queue may have pods.

    `reason` and `message` show why it may not; the message of an admitted job is the ClusterQueue of its quota.
    `quota` is the number of pods that an admitted job has quota for, by replica type in lower case: less than the
    number of its replicas where some of them have ended and their quota was given back.
    """

    reason: str
    message: str = ""
    admitted: bool = False
    quota: Mapping[str, int] = {}


class Observed(msgspec.Struct, frozen=True):
    """The caches' view of one job, and the controller's memory of it.

    `job` is defaulted (`tfoperator.api.defaults.default`), with the newest status known. `pods`, `services` and
    `deployments` are the objects whose controller is this job's UID, in any order, terminating objects included.
    `problems` are the validation errors of the job (and the lines of `decode_error`), each as `field: message`.
    `pod_group` is the job's own, and `priorities` has the priorities of the PriorityClasses (`priorities_of`); both are
    used only with a gang scheduler. `known_for` is the number of seconds since this process first synced the job.
    `progress` is the progress that the job has reported so far, perhaps newer than its status; None if this operator
    takes no reports. `log_lines` is None if this operator reads no logs. `stacks_taken` is when stacks of the job's
    threads were last taken, 1970 if never; None if this operator takes none.
    `edited_templates` names the replica types whose pods would be made differently than at the last look, and has
    `spec.dataService` if that is true of the pods of the data service.
    `uncounted_types` are the replica types, as the job spells them, that Kueue's quota doesn't count. `status_age` is
    the number of seconds since this process wrote the status. `refused` maps each object that seems to be the job's,
    but could not be adopted or released, to the reason; decisions don't depend on it. `usage` is the job's usage as the
    last plan of this process had it, perhaps newer than the status.
    `not_created` has the reason why the API server refused to create an object of a replica, by the replica, or by the
    kind of an object that all replicas need; None if this process has tried to create none yet.
    `gate` is None unless the operator itself drives the job's Workload in Kueue.
    """

    job: TFJob
    pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    problems: tuple[str, ...] = ()
    pod_group: PodGroup | None = None
    priorities: Mapping[str, int] = {}
    deployments: tuple[Deployment, ...] = ()
    unseen: Unseen = Unseen()
    unkept_logs: UnkeptLogs | None = None
    known_for: float = 0.0
    comparison: Comparison | None = None
    progress: TrainingProgress | None = None
    log_lines: LogLines | None = None
    stacks_taken: datetime | None = None
    edited_templates: tuple[str, ...] = ()
    uncounted_types: tuple[str, ...] = ()
    status_age: float = math.inf
    refused: Mapping[str, str] = {}
    not_created: Refusals | None = None
    gate: QueueGate | None = None
    usage: JobUsage | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether a user or a queue suspends the job."""
        return self.job.spec.suspended or self.held

    @property
    def held(self) -> bool:
        """Whether the job's queue lets it have no pods now."""
        return self.gate is not None and not self.gate.admitted

    @property
    def pods_of_unkept_logs(self) -> frozenset[str]:
        """The UIDs of pods whose logs are not in the archive yet."""
        return frozenset() if self.unkept_logs is None else self.unkept_logs.pods

    @property
    def reported(self) -> TrainingProgress | None:
        """The newest known progress with a time of its report: the status's, or a later report."""
        recorded, newest = self.job.status.progress, self.progress
        if recorded is None and newest is None:
            return None
        timed = [report for report in (recorded, newest) if report is not None and report.last_updated_time]
        return max(timed, key=lambda report: epoch_seconds(report.last_updated_time), default=None)


class PlanOptions(PodOptions, frozen=True, kw_only=True):
    """The options of pods, and the delays of actions. Times are seconds.

    A replica's n-th restart comes `restart_delay_base * 2**(n-1)` after its program began, at most `restart_delay_cap`,
    and at once if that is over, or if the base is 0. A pod on a lost node is deleted by force `node_lost_margin` after
    the moment its graceful deletion should have been over. `default_clean_pod_policy` holds for jobs that leave theirs
    unset; empty: pods that still run when such a job has ended are stopped (see `cleanup`). For `first_status_period` a
    job's first status waits, to be written together with a second status. A status with nothing new but counts is
    written `counts_period` after the last write at the earliest (see `status`). Why a job waits in its queue is
    written again after `queue_text_period`, if only numbers in the text have changed.
    """

    restart_delay_base: float
    restart_delay_cap: float
    default_clean_pod_policy: str
    node_lost_margin: float = 30.0
    first_status_period: float = 0.0
    counts_period: float = 0.0
    queue_text_period: float = 0.0


def clean_pod_policy(job: TFJob, options: PlanOptions) -> str:
    """Return the job's `cleanPodPolicy`, else the administrator's; empty if neither is set."""
    return job.spec.policy.clean_pod_policy or options.default_clean_pod_policy


def with_own_deletions(observed: Observed, now: datetime) -> Observed:
    """Return the same with each pod marked as terminating that this process has deleted.

    If it counted as alive, a pod of a job that was suspended and resumed at once would count as started again, and its
    end, once it is seen, as a loss.
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
    """Return the pods made until `since` by which `status` newly counts restarts, or newly records starts or ends.

    A lagging cache may still show pods of the past. These must not decide: once a pod counts as started, its absence
    counts as a loss.
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
