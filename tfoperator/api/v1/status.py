"""The status of a TFJob `kubeflow.org/v1` as types, and the sets of replica indexes in it as short strings. Pure.

A status must remember which of perhaps a thousand replicas are finished without growing to a thousand numbers.
What is read back may have been edited by hand, so reading keeps what it understands and never raises or blows up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.disruptions import DisruptionBackoff
from tfoperator.base.clock import utc

_NEVER = datetime.min.replace(tzinfo=UTC)

MAX_INDEXES = 100_000
"""The most indexes that one string yields: `"0-2147483647"` must not eat the operator's memory."""


class JobCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One observation about the job."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None


def find_condition(conditions: Sequence[JobCondition], kind: str) -> JobCondition | None:
    """Return the condition of that type, or None."""
    return next((one for one in conditions if one.type == kind), None)


def final_of(status: TFJobStatus) -> JobCondition | None:
    """Return the condition with a job's outcome, None while it has not ended. Of two that are true, Failed counts."""
    true = {found.type: found for found in status.conditions if found.status == "True"}
    return true.get(ConditionType.FAILED) or true.get(ConditionType.SUCCEEDED)


def status_of(conditions: Sequence[JobCondition], kind: str) -> str:
    """Return True, False or Unknown, as the condition of that type says; empty if there is none."""
    found = find_condition(conditions, kind)
    return "" if found is None else found.status


class ReplicaStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the replicas of one type do.

    `active` counts pods that run (the peer's meaning), `ready` those whose containers are all ready.
    `restarts` is how often replicas of this type were started again, in place or by recreation, since the job
    began: the sum that people read. `restart_counts` holds it per index, where it isn't zero, so that it survives
    pod deletion and operator restarts. `disruptions` and `disruption_counts` say how many of these followed on a
    disruption (the pod was taken from the job); the others followed on failures, with which a replica's delay grows.
    `completed_indexes` are the indexes that succeeded: they are not run again even if their pod is deleted.
    `failed_indexes` are those that failed for good: not run again either, as long as the type has that index.
    `started_indexes` are those that ever had a pod: without one now, their pod has vanished, rather than never been
    made. All are written like batch/v1's Job writes them: `"0,2-5"`.
    `selector` is the label selector of the type's pods, of the workers only: an autoscaler reads it.
    """

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int = 0
    restarts: int = 0
    restart_counts: dict[str, int] = {}
    disruptions: int = 0
    disruption_counts: dict[str, int] = {}
    completed_indexes: str = ""
    failed_indexes: str = ""
    started_indexes: str = ""
    selector: str = ""


class TensorBoardStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the job's TensorBoard is, and whether its page answers."""

    url: str = ""
    ready: bool = False


class Metric(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A number (or a word) that the program has reported."""

    name: str
    value: str


class ReplicaProgress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How far one replica is; of a slow one also `factor` ("2.1"), of its step time to the median of its type."""

    name: str
    step: int | None = None
    last_updated_time: datetime | None = None
    factor: str = ""


class TrainingProgress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the training program has reported about itself.

    `replica` is the one whose report this is, and `report_time` when it came: of all replicas that report, the first
    that has not fallen silent (the chief, else worker-0, and so on). `last_updated_time` is that of the newest report
    of any replica. `behind` are the replicas that are furthest behind, the furthest first, where several report; `slow`
    are those with long steps. `loss_not_a_number` counts the reports in a row, ten at most, in which
    a metric named loss is no number. `completion` ("43%") and `eta` ("3m20s") say `percentage` and
    `estimated_remaining_seconds` for people, since a printer column can't.
    """

    completion: str = ""
    eta: str = ""
    percentage: int | None = None
    step: int | None = None
    total_steps: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: tuple[Metric, ...] = ()
    replica: str = ""
    report_time: datetime | None = None
    last_updated_time: datetime | None = None
    behind: tuple[ReplicaProgress, ...] = ()
    slow: tuple[ReplicaProgress, ...] = ()
    loss_not_a_number: int = 0

    def without_estimate(self) -> TrainingProgress:
        """Return the progress of a job that has ended: no time is left."""
        return msgspec.structs.replace(self, eta="", estimated_remaining_seconds=None)


class UsagePhase(StrEnum):
    """What a job's time goes to.

    QUEUED: it waits for its queue, or for the operator. SCHEDULING: pods wait for nodes. STARTING: images, containers,
    and the programs until their first report, where they report. TRAINING. LOST: from a restart until the training is
    further than it was before. STALLED: it makes no progress. SUSPENDED.
    """

    QUEUED = "queued"
    SCHEDULING = "scheduling"
    STARTING = "starting"
    TRAINING = "training"
    LOST = "lost"
    STALLED = "stalled"
    SUSPENDED = "suspended"


class ResourceUsage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How much of a resource the job's pods request, and for how long.

    `in_use` is the amount now, `requested_seconds` is the amount times the seconds that pods were on nodes,
    `trained_seconds` those of them that the job trained: of `cpu` in cores, of `memory` in bytes.
    """

    in_use: float = 0.0
    requested_seconds: float = 0.0
    trained_seconds: float = 0.0


class JobUsage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the job's time went to.

    It is exact although it is written rarely: the job has been in `phase` since `since`, and `seconds` has the whole
    seconds in each phase until then (`until` adds up). An ended job is in no phase. `source` is Reports where the
    programs report their progress, else Pods: then the lives of pods tell what trains. `goodput` is the share of the
    seconds that trained, when the status was written. `step` is the highest that was reported, at `step_time`, and
    `restarts` the number of restarts that are accounted for. `resources` are up to `resources_since`.
    """

    phase: str = ""
    since: datetime | None = None
    seconds: dict[str, int] = {}
    source: str = ""
    goodput: str = ""
    step: int | None = None
    step_time: datetime | None = None
    restarts: int = 0
    resources: dict[str, ResourceUsage] = {}
    resources_since: datetime | None = None

    @property
    def time(self) -> datetime:
        """When something in it changed last, but for what the time changes."""
        return max((utc(one) for one in (self.since, self.resources_since) if one is not None), default=_NEVER)

    def until(self, now: datetime) -> dict[str, int]:
        """Return the seconds in each phase that the job was in, up to `now`; 0 or more, whatever the status says."""
        current = seconds_since(self.since, now)
        found = {
            str(phase): max(self.seconds.get(phase, 0), 0) + (current if phase == self.phase else 0)
            for phase in UsagePhase
        }
        return {phase: seconds for phase, seconds in found.items() if seconds or phase == self.phase}

    def goodput_at(self, now: datetime) -> int | None:
        """Return the share of the seconds up to `now` that trained, in percent; None if there are none."""
        seconds = self.until(now)
        total = sum(seconds.values())
        return 100 * seconds.get(UsagePhase.TRAINING, 0) // total if total else None

    def with_goodput(self, now: datetime) -> JobUsage:
        """Return the usage with the goodput of this moment."""
        percent = self.goodput_at(now)
        return msgspec.structs.replace(self, goodput="" if percent is None else f"{percent}%")

    def resources_until(self, now: datetime) -> dict[str, ResourceUsage]:
        """Return the resources up to `now`, as if nothing but the time had changed since they were written."""
        passed = seconds_since(self.resources_since, now)
        trained = passed if self.phase == UsagePhase.TRAINING else 0
        return {
            name: ResourceUsage(
                one.in_use, one.requested_seconds + one.in_use * passed, one.trained_seconds + one.in_use * trained
            )
            for name, one in self.resources.items()
        }


def seconds_since(moment: datetime | None, now: datetime) -> int:
    """Return the whole seconds from a time in a status (a naive one is UTC) until `now`; 0 if it is later, or None."""
    return 0 if moment is None else max(int((now - utc(moment)).total_seconds()), 0)


class TFJobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the operator observed. All times are UTC, whole seconds.

    `phase`, `ready` ("3/4") and `restarts` are what people look for first, in one word or number each; `kubectl get
    tfjobs -o wide` prints them, and a printer column can't add up numbers itself. `job_restarts` is how often all
    replicas were started again together (`restartScope: Job`); each time counts once in `restarts`.
    `disruptions` says how many of the `restarts` followed on disruptions, `job_disruptions` how many of `job_restarts`.

    `last_reconcile_time` is when the job was last compared with the live state (`tfoperator.reconciler`). It is written
    with other changes of the status, or else with the first comparison, and then before it is five minutes old, until
    the job ends; more rarely where that would be more than five writes a second in all. It determines when the next
    comparison is due, also for a new leader. A wrong value costs a comparison that is early, or five minutes late.

    Under `onStraggler: Restart`, `node_failures` says how often in a row replicas failed on nodes (`worker-1/node`).
    `network` is what the job was started with if that is PerJob, and empty otherwise.
    """

    phase: str = ""
    ready: str = ""
    restarts: int = 0
    job_restarts: int = 0
    disruptions: int = 0
    job_disruptions: int = 0
    disruption_backoff: DisruptionBackoff | None = None
    conditions: tuple[JobCondition, ...] = ()
    operator_conditions: tuple[JobCondition, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] = {}
    start_time: datetime | None = None
    completion_time: datetime | None = None
    last_reconcile_time: datetime | None = None
    tensor_board: TensorBoardStatus | None = None
    progress: TrainingProgress | None = None
    usage: JobUsage | None = None
    node_failures: dict[str, int] = {}
    network: str = ""
    observed_generation: int = 0


def all_conditions(status: TFJobStatus) -> tuple[JobCondition, ...]:
    """Return the conditions of all types: the Go operator's last, and the latest of those at the end."""
    return (*status.operator_conditions, *status.conditions)


def format_indexes(indexes: Iterable[int]) -> str:
    """Write a set of indexes, `"0,2-5"`: ascending, neighbours (two or more) joined as `first-last`; "" for none."""
    parts: list[str] = []
    first = last = -2
    for index in sorted(set(indexes)):
        if index == last + 1:
            last = index
            continue
        if last >= 0:
            parts.append(_range(first, last))
        first = last = index
    if last >= 0:
        parts.append(_range(first, last))
    return ",".join(parts)


def parse_indexes(text: str) -> frozenset[int]:
    """Read a set of indexes in any order, overlaps allowed.

    Parts that are not `n` or `n-m` (n <= m) are skipped, and so is everything after the first `MAX_INDEXES` indexes.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low = _number(first)
        high = _number(last) if dash else low
        if low is None or high is None:
            continue
        found.update(range(low, min(high + 1, low + MAX_INDEXES - len(found))))
        if len(found) >= MAX_INDEXES:
            break
    return frozenset(found)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
