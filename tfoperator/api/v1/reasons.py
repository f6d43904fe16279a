"""The reasons of a TFJob's events, and of its conditions, each declared once: its word, its meaning, where it appears.

The reasons that one condition alone has, one for each of its statuses, stand in the condition's own row
(condition_types.py).

To add a reason, add a row to `JobReason` and run `python hack/generate.py`, which writes docs/conditions.md. Programs
read these words, so a word in use does not change. If the Go operator has a word for the same thing, this operator uses
that word.
"""

from __future__ import annotations

from typing import Literal, NewType

import msgspec

from tfoperator.api.v1.condition_types import PASSING_CONDITIONS, ConditionType, Fate
from tfoperator.base.words import Word

EventType = Literal["Normal", "Warning"]

ForeignReason = NewType("ForeignReason", str)
"""A reason in the words of another program: Kueue's, in the condition Admitted."""


class ReasonTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a reason.

    `meaning` is a statement about the job, and is in docs/conditions.md. `event` is the type of the events with
    this reason, None if there are none. `conditions` are the conditions that can have it. `is_news`: `tfoperator run`
    prints a line for such an event.
    """

    meaning: str
    event: EventType | None = None
    conditions: tuple[ConditionType, ...] = ()
    is_news: bool = True


_HELD = tuple(condition for condition in ConditionType if condition.traits.while_held is Fate.FALSE)
"""The conditions that become false when a job is suspended."""

_HELD_BY_QUEUE = tuple(condition for condition in _HELD if condition is not ConditionType.ADMITTED)
_OUR_PASSING = tuple(condition for condition in PASSING_CONDITIONS if not condition.traits.is_peers)


def _event(kind: EventType, meaning: str, *, is_news: bool = True) -> ReasonTraits:
    """Return the traits of a reason that only events have."""
    return ReasonTraits(meaning=meaning, event=kind, is_news=is_news)


def _of(condition: ConditionType, meaning: str) -> ReasonTraits:
    """Return the traits of a reason that only one condition has."""
    return ReasonTraits(meaning=meaning, conditions=(condition,))


def _end(outcome: ConditionType, meaning: str) -> ReasonTraits:
    """Return the traits of a reason for a job's end with this outcome, without an event."""
    return ReasonTraits(meaning=meaning, conditions=(outcome, *PASSING_CONDITIONS))


class JobReason(Word):
    """The reasons of a TFJob's conditions and events."""

    traits: ReasonTraits

    @property
    def event_type(self) -> EventType:
        """The type of the events with this reason. Raises TypeError for a reason that only conditions have."""
        if self.traits.event is None:
            raise TypeError(f"{self} is the reason of no event: its row in JobReason has no type of an event")
        return self.traits.event

    # The life of a job.

    CREATED = "TFJobCreated", _of(ConditionType.CREATED, "The operator knows of the job.")
    INVALID = (
        "TFJobInvalid",
        ReasonTraits(
            meaning="The spec makes no sense; the message names the fields.",
            event="Warning",
            conditions=(ConditionType.RUNNING, *_OUR_PASSING, ConditionType.FAILED),
        ),
    )
    PENDING = (
        "TFJobPending",
        _of(ConditionType.RUNNING, "The job does not run yet; the message says what it waits for."),
    )
    RUNNING = "TFJobRunning", _of(ConditionType.RUNNING, "The chief runs, or a worker where there is no chief.")
    RESTARTING = (
        "TFJobRestarting",
        ReasonTraits(
            meaning="Replicas are started again; the message names them, and why.",
            event="Warning",
            conditions=(ConditionType.RESTARTING, ConditionType.RUNNING),
        ),
    )
    RESIZED = (
        "TFJobResized",
        ReasonTraits(
            meaning="The number of workers of an elastic job changes; the message names both numbers, and the reason.",
            event="Normal",
            conditions=(ConditionType.RESTARTING,),
        ),
    )
    NO_CHECKPOINT = (
        "NoCheckpoint",
        _event("Warning", "An elastic job changes its size, and its program has reported no checkpoint."),
    )
    SUCCEEDED = (
        "TFJobSucceeded",
        ReasonTraits(
            meaning="The job has met its success policy.",
            event="Normal",
            conditions=(ConditionType.SUCCEEDED, *PASSING_CONDITIONS),
            is_news=False,
        ),
    )
    FAILED = (
        "TFJobFailed",
        ReasonTraits(
            meaning="The job has failed for good; the message says why.",
            event="Warning",
            conditions=(ConditionType.FAILED, *PASSING_CONDITIONS),
            is_news=False,
        ),
    )
    START_DEADLINE_EXCEEDED = (
        "StartDeadlineExceeded",
        ReasonTraits(
            meaning="Not all replicas had started in `startDeadlineSeconds`.",
            event="Warning",
            conditions=(ConditionType.FAILED, *PASSING_CONDITIONS),
        ),
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        ReasonTraits(
            meaning="The job has made no progress for `progressDeadlineSeconds`, as with Deployments.",
            event="Warning",
            conditions=(ConditionType.STALLED, ConditionType.FAILED, *PASSING_CONDITIONS),
        ),
    )

    # Suspensions and queues.

    SUSPENDED = (
        "TFJobSuspended",
        ReasonTraits(
            meaning="The job is suspended: its pods are deleted.",
            event="Normal",
            conditions=(ConditionType.SUSPENDED, *_HELD),
        ),
    )
    RESUMED = (
        "TFJobResumed",
        ReasonTraits(meaning="The job goes on.", event="Normal", conditions=(ConditionType.SUSPENDED,)),
    )
    QUEUED = (
        "TFJobQueued",
        ReasonTraits(
            meaning="The job waits in its queue, or has to go back to it.", event="Normal", conditions=_HELD_BY_QUEUE
        ),
    )
    ADMITTED = "TFJobAdmitted", _event("Normal", "Kueue has given the job its quota.")
    NOT_COUNTED_BY_QUEUE = (
        "NotCountedByQueue",
        _event("Warning", "The job's queue does not count the pods of some replica types: they run without quota."),
    )

    # Progress.

    STALLED = "Stalled", _event("Warning", "The job makes no progress.")
    NOTHING_TO_TELL = (
        "NothingToTell",
        _of(ConditionType.STALLED, "Neither reports nor logs show whether the job makes progress."),
    )
    PROGRESS_UNKNOWN = "ProgressUnknown", _event("Warning", "Nothing shows whether the job makes progress.")
    PROGRESS_RESUMED = (
        "ProgressResumed",
        ReasonTraits(
            meaning="The job makes progress, again or still.", event="Normal", conditions=(ConditionType.STALLED,)
        ),
    )
    NOT_RUNNING = (
        "TFJobNotRunning",
        _of(
            ConditionType.STALLED, "Not everything that the job needs runs; the time without progress starts anew then."
        ),
    )
    STRAGGLING = "Straggling", _event("Warning", "A replica has become slow.")
    NODE_AVOIDED = (
        "NodeAvoided",
        _event("Warning", "Under `onStraggler: Restart`, a replica is made on another node from now on."),
    )
    LOSS_IS_NOT_A_NUMBER = (
        "LossIsNotANumber",
        ReasonTraits(
            meaning="Ten reports in a row had a loss that is not a number.",
            event="Warning",
            conditions=(ConditionType.DIVERGED,),
        ),
    )
    STACKS_TAKEN = "StacksTaken", _event("Normal", "Stacks of a stalled job's threads are in the log archive.")
    STACKS_NOT_TAKEN = "StacksNotTaken", _event("Warning", "No stacks of a stalled job could be taken.")

    # Replicas and their ends.

    EXITED_WITH_CODE = "ExitedWithCode", _event("Normal", "A pod has ended with this exit code.")
    REPLICA_FAILED = (
        "ReplicaFailed",
        _event("Warning", "A replica has failed for good, and the job goes on without it."),
    )
    RESTARTED_ALONE = (
        "RestartedAlone",
        _event("Warning", "A replica is restarted after another one that it may need has ended."),
    )
    RESTARTED_IN_PLACE = (
        "RestartedInPlace",
        _event(
            "Warning",
            "A kubelet has started a replica's container again in its pod. The event is Normal after exit code 0.",
            is_news=False,
        ),
    )
    RESTARTS_BY_RECREATION = (
        "RestartsByRecreation",
        _event("Warning", "The cluster can't restart containers in place, so pods are made again instead."),
    )
    PODS_LEFT_RUNNING = (
        "PodsLeftRunning",
        _event("Normal", "The job has succeeded, and pods still run that its `cleanPodPolicy` does not end."),
    )

    # Gangs.

    UNSCHEDULABLE = "Unschedulable", _event("Warning", "The gang's scheduler has found no room for all of its pods.")
    TOPOLOGY_IGNORED = "TopologyIgnored", _event("Warning", "The API server has dropped the gang's topology.")

    # Settings that may surprise the author of the job.

    TEMPLATE_CHANGED = "TemplateChanged", _event("Warning", "A template was edited; pods that exist stay as they were.")
    TOO_MANY_REPLICAS = "TooManyReplicas", _event("Warning", "TF_CONFIG is too long for a program to start with it.")
    SET_SCHEDULER_NAME = (
        "SetPodTemplateSchedulerName",
        _event("Warning", "A template names a scheduler other than the gang's, which stays."),
    )
    SET_RESTART_POLICY = (
        "SetPodTemplateRestartPolicy",
        _event("Warning", "The `restartPolicy` of a template has no effect: the replica's own holds."),
    )
    SET_TF_CONFIG = "SetPodTemplateTFConfig", _event("Warning", "The TF_CONFIG of a template is overwritten.")
    SET_HOSTNAME = (
        "SetPodTemplateHostname",
        _event("Warning", "The hostname and subdomain of a template are overwritten: the network is PerJob."),
    )

    # Objects that are made, stopped and deleted.

    SUCCESSFUL_CREATE_POD = "SuccessfulCreatePod", _event("Normal", "Pods were made.", is_news=False)
    SUCCESSFUL_CREATE_SERVICE = "SuccessfulCreateService", _event("Normal", "Services were made, and no pods.")
    SUCCESSFUL_DELETE_POD = "SuccessfulDeletePod", _event("Normal", "Pods were deleted.")
    SUCCESSFUL_DELETE_SERVICE = "SuccessfulDeleteService", _event("Normal", "Services were deleted, and no pods.")
    SUCCESSFUL_DELETE_POD_GROUP = "SuccessfulDeletePodGroup", _event("Normal", "The PodGroup was deleted.")
    SUCCESSFUL_DELETE_JOB = "SuccessfulDeleteJob", _event("Normal", "The job was deleted: its time to live was over.")
    SUCCESSFUL_STOP_POD = "SuccessfulStopPod", _event("Normal", "Pods were stopped; their logs stay with them.")
    FAILED_CREATE_POD = "FailedCreatePod", _event("Warning", "The API server refuses a pod.")
    FAILED_CREATE_SERVICE = "FailedCreateService", _event("Warning", "The API server refuses a service.")
    FAILED_CREATE_POD_GROUP = "FailedCreatePodGroup", _event("Warning", "The API server refuses the PodGroup.")
    FAILED_DELETE_POD = "FailedDeletePod", _event("Warning", "The API server refuses to delete a pod.")
    FAILED_DELETE_SERVICE = "FailedDeleteService", _event("Warning", "The API server refuses to delete a service.")
    FAILED_DELETE_POD_GROUP = (
        "FailedDeletePodGroup",
        _event("Warning", "The API server refuses to delete the PodGroup."),
    )
    FAILED_DELETE_JOB = "FailedDeleteJob", _event("Warning", "The API server refuses to delete the job.")
    FAILED_STOP_POD = "FailedStopPod", _event("Warning", "The API server refuses to have a pod stopped.")
    FAILED_CLAIM = "FailedClaim", _event("Warning", "A pod or service could not be adopted or released.")
    FIELDS_IGNORED = (
        "FieldsIgnored",
        _event("Warning", "The API server does not know fields of a pod, and dropped them."),
    )
    STATUS_REFUSED = (
        "StatusRefused",
        _event("Warning", "The job breaks the CRD so badly that no status can be written."),
    )
    FIELDS_PRUNED = (
        "FieldsPruned",
        _event("Warning", "The CRD is older than the operator and lacks fields of the job, so they have no effect."),
    )
    LOGS_NOT_ARCHIVED = "LogsNotArchived", _event("Warning", "A pod's log could not be kept in the archive.")

    # The data service.

    DATA_SERVICE_RESTARTED = (
        "DataServiceRestarted",
        _event("Warning", "The dispatcher or a data worker was started again; the job goes on."),
    )

    # The TensorBoard.

    TENSORBOARD_CREATED = "TensorBoardCreated", _event("Normal", "The TensorBoard was made.", is_news=False)
    TENSORBOARD_CHANGED = "TensorBoardChanged", _event("Normal", "The TensorBoard was brought to the spec.")
    TENSORBOARD_DELETED = "TensorBoardDeleted", _event("Normal", "The TensorBoard was deleted.")
    FAILED_TENSORBOARD = (
        "FailedTensorBoard",
        _event("Warning", "The API server refuses the TensorBoard; the job goes on."),
    )
    TENSORBOARD_NOT_EXPOSED = (
        "TensorBoardNotExposed",
        _event("Warning", "The operator does not allow this type of service, so the TensorBoard's is ClusterIP."),
    )
    TENSORBOARD_NOT_COUNTED = (
        "TensorBoardNotCounted",
        _event("Warning", "The TensorBoard asks for devices that the job's queue would not count, so it is not made."),
    )

    # Records of runs (`tfoperator run`): in a cluster a job outlives the command that has made it.

    RUN_TIMED_OUT = "RunTimedOut", _end(ConditionType.FAILED, "The time limit of the job's run was over.")
    RUN_INTERRUPTED = "RunInterrupted", _end(ConditionType.FAILED, "The job's run was interrupted.")
    RUN_DIED = "RunDied", _end(ConditionType.FAILED, "The job's run was killed, or its machine went down.")
    RUN_FAILED = "RunFailed", _end(ConditionType.FAILED, "The job's run failed by itself.")
    FINISHED_WHEN_INTERRUPTED = (
        "FinishedWhenInterrupted",
        _end(ConditionType.SUCCEEDED, "The job's run was interrupted, and the job finished within its grace period."),
    )
