"""The status of a TFJob `kubeflow.org/v1` as types, and the sets of replica indexes in it as short strings. Pure.

A status must record which of perhaps a thousand replicas are finished, and must not grow to a thousand numbers. A
person may have edited a status by hand. So the functions that read a status keep its valid parts, never raise an error,
and never need much memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Self

import msgspec

from tfoperator.api.fields.field import GO_OPERATOR, Field
from tfoperator.api.fields.limits import MAX_NODE_FAILURES, MAX_WAITING_ENTRIES
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.disruptions import DisruptionBackoff
from tfoperator.api.v1.parts.data_service import DataServiceStatus
from tfoperator.api.v1.parts.elastic import ElasticStatus
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.parts.tensorboard import TensorBoardStatus
from tfoperator.base.clock import utc

_NEVER = datetime.min.replace(tzinfo=UTC)

_PEERS = [condition for condition in ConditionType if condition.traits.is_peers]
_OURS = [condition for condition in ConditionType if not condition.traits.is_peers]

MAX_INDEXES = 100_000
"""The maximum number of indexes from one string: `"0-2147483647"` must not fill the operator's memory."""


def _or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


class JobCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One observation about the job."""

    type: Annotated[
        str,
        Field(f"Type of the condition: {_or(_PEERS)}. In operatorConditions: {_or(_OURS)}.", since=GO_OPERATOR),
    ]
    status: Annotated[str, Field("Whether the condition holds: True, False or Unknown.", since=GO_OPERATOR)]
    reason: Annotated[str, Field("Reason of the last change, as one word for programs.", since=GO_OPERATOR)] = ""
    message: Annotated[str, Field("Reason of the last change, as a sentence for people.", since=GO_OPERATOR)] = ""
    last_update_time: Annotated[
        datetime | None, Field("Time at which the condition was last written.", since=GO_OPERATOR)
    ] = None
    last_transition_time: Annotated[
        datetime | None, Field("Time at which the status of the condition last changed.", since=GO_OPERATOR)
    ] = None


def find_condition(conditions: Sequence[JobCondition], kind: str) -> JobCondition | None:
    """Return the condition of that type, or None."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None


def final_of(status: "TFJobStatus") -> JobCondition | None:
    """Return the condition with a job's outcome; None if the job has not ended.

    If both Succeeded and Failed are true, Failed counts.
    """
    true = {condition.type: condition for condition in status.conditions if condition.status == "True"}
    return true.get(ConditionType.FAILED) or true.get(ConditionType.SUCCEEDED)


def status_of(conditions: Sequence[JobCondition], kind: str) -> str:
    """Return the status of the condition of that type: True, False or Unknown; empty if there is no such condition."""
    condition = find_condition(conditions, kind)
    return "" if condition is None else condition.status


class ReplicaStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of the replicas of one type.

    - `active`: the number of pods that run (as in the Go operator).
    - `ready`: the number of pods in which all containers are ready.
    - `restarts`: how often replicas of this type were restarted, in the same pod or in a new pod, since the job began.
    - `restart_counts`: the number of restarts by index, for each index with restarts. The status keeps these numbers
      when a pod is deleted or the operator restarts.
    - `disruptions` and `disruption_counts`: the same numbers for restarts after a disruption (the job lost the pod).
      All other restarts followed failures. With each failure the delay before the replica's next start grows.
    - `completed_indexes`: the indexes that succeeded. They are not run again even if their pod is deleted.
    - `failed_indexes`: the indexes that have failed for good. They are not run again as long as the type has that
      index.
    - `started_indexes`: the indexes that have had a pod at some time. If such an index has no pod now, its pod has
      vanished. This is different from an index whose pod was never created.
    - `selector`: the label selector for the pods of this type, which an autoscaler reads. Only the workers have it.

    All sets of indexes are written as in the status of a batch/v1 Job: `"0,2-5"`.
    """

    active: Annotated[int, Field("Number of pods that run; 0 when the job has ended.", since=GO_OPERATOR)] = 0
    succeeded: Annotated[int, Field("Number of replicas that succeeded.", since=GO_OPERATOR)] = 0
    failed: Annotated[int, Field("Number of replicas that failed for good.", since=GO_OPERATOR)] = 0
    ready: Annotated[int, Field("Number of replicas that are ready.")] = 0
    restarts: Annotated[
        int, Field("Number of restarts of replicas of this type, after failures and after disruptions.")
    ] = 0
    restart_counts: Annotated[
        dict[str, int], Field("Number of restarts of each replica that was restarted; the index is the key.")
    ] = {}
    disruptions: Annotated[
        int, Field("Number of restarts after a pod was deleted, evicted or preempted, or lost with its node.")
    ] = 0
    disruption_counts: Annotated[
        dict[str, int], Field("Number of disruptions of each replica that was disrupted; the index is the key.")
    ] = {}
    completed_indexes: Annotated[str, Field("Indexes of the replicas that succeeded, such as 0,2-5.")] = ""
    failed_indexes: Annotated[str, Field("Indexes of the replicas that failed for good, such as 1,3.")] = ""
    started_indexes: Annotated[str, Field("Indexes of the replicas that had a pod, such as 0-3.")] = ""
    selector: Annotated[str, Field("Selector of the workers' pods, for autoscalers.", since=GO_OPERATOR)] = ""

    WRITTEN_BY_OTHERS: ClassVar[Mapping[str, Field]] = {
        "labelSelector": Field(
            "Selector that other operators write; this operator does not read it.",
            since=GO_OPERATOR,
            schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        )
    }


class WaitingReplicas(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reason why replicas wait. A reason that is about the whole job names no replicas.

    `replicas` has the indexes by type, but only the first 20 ranges; `count` is the number of all replicas that wait
    for this reason.
    """

    reason: Annotated[str, Field("Reason as one word for programs, such as Unschedulable.")] = ""
    message: Annotated[str, Field("Reason in words for people, with its cause.")] = ""
    next_step: Annotated[str, Field("Next step for a person, if a person can remove the reason.")] = ""
    since: Annotated[datetime | None, Field("Time at which the reason began, if the time is known.")] = None
    container: Annotated[str, Field("Container that causes the reason, if it is not the container that trains.")] = ""
    replicas: Annotated[
        dict[str, str],
        Field("Indexes of the replicas that wait, by type, such as 0,2-5. The list has at most 20 ranges."),
    ] = {}
    count: Annotated[int, Field("Number of replicas that wait for this reason.")] = 0


class UsagePhase(StrEnum):
    """The phases into which a job's time is divided.

    - QUEUED: the job waits for its queue, or for the operator.
    - SCHEDULING: pods wait for nodes.
    - STARTING: nodes pull images and start containers. If programs report progress, this phase lasts until their first
      report.
    - TRAINING: the job trains.
    - LOST: after a restart, the training has not yet passed the step that it had reached before.
    - STALLED: the job makes no progress.
    - SUSPENDED: the job is suspended.
    """

    QUEUED = "queued"
    SCHEDULING = "scheduling"
    STARTING = "starting"
    TRAINING = "training"
    LOST = "lost"
    STALLED = "stalled"
    SUSPENDED = "suspended"


class UsageSource(StrEnum):
    """The sources of the figures of a job's usage: the states of its pods, or the reports of its programs."""

    PODS = "Pods"
    REPORTS = "Reports"


class ResourceUsage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The amount of a resource that the job's pods request, and for how long.

    `in_use` is the amount now. `requested_seconds` is the amount multiplied by the seconds that pods were on nodes.
    `trained_seconds` is the part of `requested_seconds` in which the job trained. The unit is cores for `cpu`, and
    bytes for `memory`.
    """

    in_use: Annotated[float, Field("Amount that the pods request now.")] = 0.0
    requested_seconds: Annotated[
        float, Field("Amount that the pods requested, times the seconds for which they were on nodes.")
    ] = 0.0
    trained_seconds: Annotated[float, Field("The part of requestedSeconds during which the job trained.")] = 0.0


class JobUsage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How the job has used its time.

    The record is exact although the operator writes it rarely, because readers add the time since the last write.

    - `phase`, `since`: the job has been in this phase since this time. An ended job is in no phase.
    - `seconds`: the whole seconds in each phase before the time `since`. The method `until` adds the time after
      `since`.
    - `source` (`UsageSource`): Reports if the programs report their progress, else Pods (the states of pods show
      whether the job trains).
    - `goodput`: the share of the time in which the job trained, at the time when the status was written.
    - `step`, `step_time`: the highest step that was reported, and the time of that report.
    - `restarts`: the number of restarts that this record already includes.
    - `resources`: the amounts up to the time `resources_since`.
    """

    phase: Annotated[
        str,
        Field(
            "Phase in which the job is now: queued, scheduling, starting, training, lost (repeats steps after a "
            "restart), stalled or suspended."
        ),
    ] = ""
    since: Annotated[datetime | None, Field("Time at which the current phase began.")] = None
    seconds: Annotated[
        dict[str, int], Field("Seconds that the job has spent in each phase before the current one.", int64=True)
    ] = {}
    source: Annotated[
        str, Field("Source of these figures: Reports (the program's reports) or Pods (the states of the pods).")
    ] = ""
    goodput: Annotated[str, Field("Share of the time in which the job trained, such as 87%.")] = ""
    step: Annotated[int | None, Field("Highest step so far.", int64=True)] = None
    step_time: Annotated[datetime | None, Field("Time at which the highest step was reported.")] = None
    restarts: Annotated[int, Field("Number of restarts that these figures already include.")] = 0
    resources: Annotated[
        dict[str, ResourceUsage], Field("Resources that the pods of the job hold, by the name of the resource.")
    ] = {}
    resources_since: Annotated[datetime | None, Field("Time at which the resources were last added up.")] = None

    @property
    def is_reported(self) -> bool:
        """Whether the programs' reports show how the job spends its time; otherwise the states of its pods show it."""
        return self.source == UsageSource.REPORTS

    @property
    def time(self) -> datetime:
        """The time of the last change of this record. The seconds that pass are not a change."""
        return max((utc(moment) for moment in (self.since, self.resources_since) if moment is not None), default=_NEVER)

    def until(self, now: datetime) -> dict[str, int]:
        """Return the seconds up to `now` in each phase that the job was in.

        The numbers are never negative, even for a wrong status.
        """
        current = seconds_since(self.since, now)
        by_phase = {
            str(phase): max(self.seconds.get(phase, 0), 0) + (current if phase == self.phase else 0)
            for phase in UsagePhase
        }
        return {phase: seconds for phase, seconds in by_phase.items() if seconds or phase == self.phase}

    def untrained(self, now: datetime) -> int:
        """Return the seconds up to `now` in which the job did not train."""
        return sum(seconds for phase, seconds in self.until(now).items() if phase != UsagePhase.TRAINING)

    def goodput_at(self, now: datetime) -> int | None:
        """Return the share of the seconds up to `now` in which the job trained, in percent.

        It returns None if no seconds have passed.
        """
        seconds = self.until(now)
        total = sum(seconds.values())
        return 100 * seconds.get(UsagePhase.TRAINING, 0) // total if total else None

    def with_goodput(self, now: datetime) -> Self:
        """Return the usage with the goodput at `now`."""
        percent = self.goodput_at(now)
        return msgspec.structs.replace(self, goodput="" if percent is None else f"{percent}%")

    def resources_until(self, now: datetime) -> dict[str, ResourceUsage]:
        """Return the usage of resources up to `now`; `in_use` is assumed to be unchanged since the last write."""
        passed = seconds_since(self.resources_since, now)
        trained = passed if self.phase == UsagePhase.TRAINING else 0
        return {
            name: ResourceUsage(
                resource.in_use,
                resource.requested_seconds + resource.in_use * passed,
                resource.trained_seconds + resource.in_use * trained,
            )
            for name, resource in self.resources.items()
        }


def seconds_since(moment: datetime | None, now: datetime) -> int:
    """Return the whole seconds from a time in a status (UTC if naive) until `now`.

    It returns 0 if the time is None or later than `now`.
    """
    return 0 if moment is None else max(int((now - utc(moment)).total_seconds()), 0)


class TFJobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of the job that the operator has observed. All times are UTC, whole seconds.

    `phase`, `ready` ("3/4") and `restarts` are the facts that people need first, each as one word or number. `kubectl
    get tfjobs -o wide` prints them: a printer column can't add up numbers itself.

    - `job_restarts`: how often all replicas were restarted together (`restartScope: Job`). Each such restart counts
      once in `restarts`.
    - `disruptions`: how many of the `restarts` were caused by disruptions. A change of the number of workers
      (`elastic`) is no failure, so a restart for it counts as a restart after a disruption.
    - `job_disruptions`: how many of the `job_restarts` were caused by disruptions.
    - `shared_restarts`: how many restarts after failures have the same cause as another restart, so that `backoffLimit`
      does not count them. If a single stall restarts four replicas, this number is 3.
    - `network`: PerJob if the job was started with that network, otherwise empty.
    - `node_failures`: how often in a row a replica failed on a node (`worker-1/node`). It is set with `onStraggler:
      Restart`.

    `last_reconcile_time` is when the job was last compared with the live state (`tfoperator.reconciler`). The operator
    writes it together with other changes of the status. Without other changes, the operator writes it after the first
    comparison, and again before the last written time is five minutes old, until the job ends. If that would be more
    than five writes a second for all jobs together, the operator writes it less often. A leader, also a new leader,
    computes from this time when the next comparison is due. A wrong value causes a comparison that is early, or five
    minutes late.

    `waiting` has the same reasons as the message of the condition Running, but as data. The next plan reads these
    reasons, because some facts can be observed only once: for example, the cause of a restart.
    """

    phase: Annotated[str, Field("State of the job in one word: Pending, Running, Succeeded, Failed or Unknown.")] = ""
    ready: Annotated[str, Field("Number of replicas that are ready, and number of all replicas, such as 3/4.")] = ""
    restarts: Annotated[
        int,
        Field(
            "Number of restarts, after failures and after disruptions. A restart of all replicas together counts once."
        ),
    ] = 0
    job_restarts: Annotated[int, Field("Number of restarts of all replicas together (restartScope: Job).")] = 0
    disruptions: Annotated[
        int,
        Field(
            "Number of restarts after a pod was deleted, evicted or preempted, or lost with its node, or after the "
            "number of workers of an elastic job changed. The number includes a restart of all replicas after such a "
            "loss, even if the replica with the lost pod has counted the loss, too."
        ),
    ] = 0
    job_disruptions: Annotated[
        int, Field("Number of disruptions after which all replicas restarted together (restartScope: Job).")
    ] = 0
    shared_restarts: Annotated[
        int,
        Field(
            "Number of restarts that backoffLimit does not count, because another replica was restarted for the same "
            "cause: a stall, or slow steps."
        ),
    ] = 0
    disruption_backoff: Annotated[
        DisruptionBackoff | None,
        Field("Disruptions in a row. After each of them, the operator waits longer before it creates new pods."),
    ] = None
    conditions: Annotated[
        tuple[JobCondition, ...],
        Field("Conditions of the types that the Go operator has; the newest condition is the last.", since=GO_OPERATOR),
    ] = ()
    operator_conditions: Annotated[
        tuple[JobCondition, ...],
        Field(f"Conditions of the types that only this operator has: {', '.join(_OURS)}."),
    ] = ()
    replica_statuses: Annotated[dict[str, ReplicaStatus], Field("Numbers of replicas by type.", since=GO_OPERATOR)] = {}
    start_time: Annotated[
        datetime | None, Field("Time at which the job was started, or resumed after a suspension.", since=GO_OPERATOR)
    ] = None
    completion_time: Annotated[datetime | None, Field("Time at which the job ended.", since=GO_OPERATOR)] = None
    last_reconcile_time: Annotated[
        datetime | None, Field("Time at which the operator last compared the job with the cluster.", since=GO_OPERATOR)
    ] = None
    waiting: Annotated[
        tuple[WaitingReplicas, ...],
        Field("Reasons why the job's replicas wait; empty if none waits.", max_items=MAX_WAITING_ENTRIES),
    ] = ()
    tensor_board: Annotated[TensorBoardStatus | None, Field("State of the job's TensorBoard, and its address.")] = None
    data_service: Annotated[DataServiceStatus | None, Field("State of the job's data service, and its address.")] = None
    progress: Annotated[
        TrainingProgress | None, Field("Progress of the training, as the program reported it last.")
    ] = None
    usage: Annotated[JobUsage | None, Field("Use of the job's time and resources.")] = None
    node_failures: Annotated[
        dict[str, int],
        Field(
            "Number of failures in a row on a node, by replica and node, such as worker-0/node-1.",
            schema={"maxProperties": MAX_NODE_FAILURES},
        ),
    ] = {}
    elastic: Annotated[
        ElasticStatus | None,
        Field("Number of workers of a job with an elasticPolicy, with the time and the reason of the last change."),
    ] = None
    network: Annotated[
        str, Field("Network with which the job was started. PerJob means one service for all replicas.")
    ] = ""
    observed_generation: Annotated[
        int, Field("The metadata.generation of the job to which this status belongs.", int64=True)
    ] = 0


def all_conditions(status: TFJobStatus) -> tuple[JobCondition, ...]:
    """Return the conditions of all types. The Go operator's types come last, with the latest of them at the end."""
    return (*status.operator_conditions, *status.conditions)


def format_indexes(indexes: Iterable[int]) -> str:
    """Write a set of indexes as `"0,2-5"`: in ascending order, with two or more consecutive indexes as `first-last`.

    It returns "" for none.
    """
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
    """Read a set of indexes; the parts may be in any order, and may overlap.

    It skips parts that are not `n` or `n-m` (n <= m), and everything after the first `MAX_INDEXES` indexes.
    """
    indexes: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low = _number(first)
        high = _number(last) if dash else low
        if low is None or high is None:
            continue
        indexes.update(range(low, min(high + 1, low + MAX_INDEXES - len(indexes))))
        if len(indexes) >= MAX_INDEXES:
            break
    return frozenset(indexes)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
