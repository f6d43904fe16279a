"""The reasons of a TFJob's events, and of its conditions, each declared once: its word, its meaning, where it appears.

If a condition has only one reason for a status, and shares it with no other condition, the condition's own row
(condition_types.py) declares the reason.

To add a reason, add a row to `JobReason` and run `python hack/generate.py`, which writes docs/conditions.md. Other
programs read these words, so do not change a word after a release. If the Go operator has a word for the same thing,
this operator uses that word.
"""

from __future__ import annotations

from typing import Literal, NewType

import msgspec

from tfoperator.api.v1.condition_types import PASSING_CONDITIONS, ConditionType, Fate
from tfoperator.base.words import Word

EventType = Literal["Normal", "Warning"]

ForeignReason = NewType("ForeignReason", str)
"""A reason that another program has chosen: Kueue's reason, in the condition Admitted."""


class ReasonTraits(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a reason.

    `meaning` is a statement about the job, and is in docs/conditions.md. `event` is the type of the events with this
    reason; None if only conditions have this reason. `conditions` are the conditions that can have this reason.
    `is_news`: `tfoperator run` prints a line for such an event.
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
    """Return the traits of a reason for which a job ends with this outcome. There is no event with this reason.

    The conditions that become false at the job's end get the same reason.
    """
    return ReasonTraits(meaning=meaning, conditions=(outcome, *PASSING_CONDITIONS))


class JobReason(Word):
    """The reasons of a TFJob's conditions and events."""

    traits: ReasonTraits

    @property
    def event_type(self) -> EventType:
        """The type of the events with this reason. Raises TypeError for a reason that only conditions have."""
        if self.traits.event is None:
            raise TypeError(f"{self} is not a reason of events: its row in JobReason has no event type")
        return self.traits.event

    # The life of a job.

    CREATED = "TFJobCreated", _of(ConditionType.CREATED, "The operator has read the job for the first time.")
    INVALID = (
        "TFJobInvalid",
        ReasonTraits(
            meaning="The spec is not valid; the message names the fields.",
            event="Warning",
            conditions=(ConditionType.RUNNING, *_OUR_PASSING, ConditionType.FAILED),
        ),
    )
    PENDING = (
        "TFJobPending",
        _of(ConditionType.RUNNING, "The job does not run yet; the message names the reason."),
    )
    RUNNING = "TFJobRunning", _of(ConditionType.RUNNING, "The chief runs, or, if the job has no chief, a worker runs.")
    RESTARTING = (
        "TFJobRestarting",
        ReasonTraits(
            meaning="The operator restarts replicas; the message names the replicas and the reasons.",
            event="Warning",
            conditions=(ConditionType.RESTARTING, ConditionType.RUNNING),
        ),
    )
    RESIZED = (
        "TFJobResized",
        ReasonTraits(
            meaning="The number of workers of an elastic job changes; the message has the old number, the new number, "
            "and the reason.",
            event="Normal",
            conditions=(ConditionType.RESTARTING,),
        ),
    )
    NO_CHECKPOINT = (
        "NoCheckpoint",
        _event("Warning", "An elastic job changes its number of workers, but its program has reported no checkpoint."),
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
            meaning="The job has failed for good; the message has the reason.",
            event="Warning",
            conditions=(ConditionType.FAILED, *PASSING_CONDITIONS),
            is_news=False,
        ),
    )
    START_DEADLINE_EXCEEDED = (
        "StartDeadlineExceeded",
        ReasonTraits(
            meaning="Some replicas had not started within `startDeadlineSeconds`.",
            event="Warning",
            conditions=(ConditionType.FAILED, *PASSING_CONDITIONS),
        ),
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        ReasonTraits(
            meaning="The job has made no progress for `progressDeadlineSeconds`. Deployments use the same reason.",
            event="Warning",
            conditions=(ConditionType.STALLED, ConditionType.FAILED, *PASSING_CONDITIONS),
        ),
    )

    # Suspensions and queues.

    SUSPENDED = (
        "TFJobSuspended",
        ReasonTraits(
            meaning="The job is suspended, and the operator deletes its pods.",
            event="Normal",
            conditions=(ConditionType.SUSPENDED, *_HELD),
        ),
    )
    RESUMED = (
        "TFJobResumed",
        ReasonTraits(meaning="The job is no longer suspended.", event="Normal", conditions=(ConditionType.SUSPENDED,)),
    )
    QUEUED = (
        "TFJobQueued",
        ReasonTraits(
            meaning="The job waits in its queue, or has lost its quota and goes back to the queue.",
            event="Normal",
            conditions=_HELD_BY_QUEUE,
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
    PROGRESS_UNKNOWN = (
        "ProgressUnknown",
        _event("Warning", "Neither reports nor logs show whether the job makes progress."),
    )
    PROGRESS_RESUMED = (
        "ProgressResumed",
        ReasonTraits(
            meaning="The job makes progress again, or has made progress all the time.",
            event="Normal",
            conditions=(ConditionType.STALLED,),
        ),
    )
    NOT_RUNNING = (
        "TFJobNotRunning",
        _of(
            ConditionType.STALLED,
            "A replica that the job needs does not run; when it runs again, the time without progress starts at zero.",
        ),
    )
    STRAGGLING = "Straggling", _event("Warning", "A replica has become slow.")
    NODE_AVOIDED = (
        "NodeAvoided",
        _event(
            "Warning",
            "Because of `onStraggler: Restart`, the operator creates the pod of a replica on another node from now on.",
        ),
    )
    LOSS_IS_NOT_A_NUMBER = (
        "LossIsNotANumber",
        ReasonTraits(
            meaning="The loss was not a number in ten reports in a row.",
            event="Warning",
            conditions=(ConditionType.DIVERGED,),
        ),
    )
    STACKS_TAKEN = "StacksTaken", _event("Normal", "The stacks of the threads of a stalled job are in the log archive.")
    STACKS_NOT_TAKEN = (
        "StacksNotTaken",
        _event("Warning", "The operator could not get the stacks of the threads of a stalled job."),
    )

    # Replicas and their ends.

    EXITED_WITH_CODE = "ExitedWithCode", _event("Normal", "A pod has ended; the message contains its exit code.")
    REPLICA_FAILED = (
        "ReplicaFailed",
        _event("Warning", "A replica has failed for good, and the job continues without it."),
    )
    RESTARTED_ALONE = (
        "RestartedAlone",
        _event("Warning", "A replica is restarted alone, although another replica that it may train with has ended."),
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
        _event("Warning", "The cluster can't restart containers in place, so the operator creates new pods instead."),
    )
    PODS_LEFT_RUNNING = (
        "PodsLeftRunning",
        _event("Normal", "The job has succeeded, but its `cleanPodPolicy` leaves some pods running."),
    )

    # Gangs.

    UNSCHEDULABLE = (
        "Unschedulable",
        _event("Warning", "The gang scheduler has not found nodes for all pods of the gang."),
    )
    TOPOLOGY_IGNORED = (
        "TopologyIgnored",
        _event("Warning", "The API server has dropped the topology from the job's PodGroup."),
    )

    # Settings that may surprise the author of the job.

    TEMPLATE_CHANGED = (
        "TemplateChanged",
        _event("Warning", "The pod template was edited; existing pods keep the old template."),
    )
    TOO_MANY_REPLICAS = (
        "TooManyReplicas",
        _event("Warning", "The list of the job's hosts is so long that Linux can't start a program with it."),
    )
    SET_SCHEDULER_NAME = (
        "SetPodTemplateSchedulerName",
        _event(
            "Warning",
            "A pod template names another scheduler than the gang scheduler. The operator keeps the template's "
            "scheduler.",
        ),
    )
    SET_RESTART_POLICY = (
        "SetPodTemplateRestartPolicy",
        _event(
            "Warning",
            "The `restartPolicy` of a pod template has no effect: the `restartPolicy` of the replica type is used.",
        ),
    )
    SET_TF_CONFIG = (
        "SetPodTemplateTFConfig",
        _event("Warning", "The operator replaces the TF_CONFIG of a pod template."),
    )
    SET_HOSTNAME = (
        "SetPodTemplateHostname",
        _event(
            "Warning",
            "The operator replaces the hostname and subdomain of a pod template, because `spec.network` is PerJob.",
        ),
    )

    # Objects that are made, stopped and deleted.

    SUCCESSFUL_CREATE_POD = "SuccessfulCreatePod", _event("Normal", "Pods were made.", is_news=False)
    SUCCESSFUL_CREATE_SERVICE = (
        "SuccessfulCreateService",
        _event("Normal", "The operator has created services, but no pods."),
    )
    SUCCESSFUL_DELETE_POD = "SuccessfulDeletePod", _event("Normal", "Pods were deleted.")
    SUCCESSFUL_DELETE_SERVICE = (
        "SuccessfulDeleteService",
        _event("Normal", "The operator has deleted services, but no pods."),
    )
    SUCCESSFUL_DELETE_POD_GROUP = "SuccessfulDeletePodGroup", _event("Normal", "The PodGroup was deleted.")
    SUCCESSFUL_DELETE_JOB = (
        "SuccessfulDeleteJob",
        _event("Normal", "The operator has deleted the job after `ttlSecondsAfterFinished`."),
    )
    SUCCESSFUL_STOP_POD = (
        "SuccessfulStopPod",
        _event("Normal", "The operator has stopped pods, and keeps them with their logs."),
    )
    FAILED_CREATE_POD = "FailedCreatePod", _event("Warning", "The API server refuses to create a pod.")
    FAILED_CREATE_SERVICE = "FailedCreateService", _event("Warning", "The API server refuses to create a service.")
    FAILED_CREATE_POD_GROUP = (
        "FailedCreatePodGroup",
        _event("Warning", "The API server refuses to create the PodGroup."),
    )
    FAILED_DELETE_POD = "FailedDeletePod", _event("Warning", "The API server refuses to delete a pod.")
    FAILED_DELETE_SERVICE = "FailedDeleteService", _event("Warning", "The API server refuses to delete a service.")
    FAILED_DELETE_POD_GROUP = (
        "FailedDeletePodGroup",
        _event("Warning", "The API server refuses to delete the PodGroup."),
    )
    FAILED_DELETE_JOB = "FailedDeleteJob", _event("Warning", "The API server refuses to delete the job.")
    FAILED_STOP_POD = "FailedStopPod", _event("Warning", "The API server refuses the change that stops a pod.")
    FAILED_CLAIM = "FailedClaim", _event("Warning", "A pod or service could not be adopted or released.")
    FIELDS_IGNORED = (
        "FieldsIgnored",
        _event("Warning", "The API server does not know some fields of a pod, and dropped them."),
    )
    STATUS_REFUSED = (
        "StatusRefused",
        _event("Warning", "The job violates the CRD, so the API server refuses every status of the job."),
    )
    FIELDS_PRUNED = (
        "FieldsPruned",
        _event(
            "Warning",
            "The CRD is older than the operator. API servers drop the fields of the job that this CRD lacks, so "
            "these fields have no effect.",
        ),
    )
    LOGS_NOT_ARCHIVED = (
        "LogsNotArchived",
        _event("Warning", "The operator could not copy the log of a pod to the log archive."),
    )

    # The data service.

    DATA_SERVICE_RESTARTED = (
        "DataServiceRestarted",
        _event("Warning", "The dispatcher or a data worker was restarted; the job continues."),
    )

    # The TensorBoard.

    TENSORBOARD_CREATED = (
        "TensorBoardCreated",
        _event("Normal", "The operator has created the TensorBoard.", is_news=False),
    )
    TENSORBOARD_CHANGED = (
        "TensorBoardChanged",
        _event("Normal", "The operator has updated the TensorBoard to match the job's spec."),
    )
    TENSORBOARD_DELETED = "TensorBoardDeleted", _event("Normal", "The operator has deleted the TensorBoard.")
    FAILED_TENSORBOARD = (
        "FailedTensorBoard",
        _event("Warning", "The API server refuses an object of the TensorBoard; the job continues."),
    )
    TENSORBOARD_NOT_EXPOSED = (
        "TensorBoardNotExposed",
        _event(
            "Warning",
            "The operator does not allow the type in `spec.tensorBoard.serviceType`, so the service of the TensorBoard "
            "has the type ClusterIP.",
        ),
    )
    TENSORBOARD_NOT_COUNTED = (
        "TensorBoardNotCounted",
        _event(
            "Warning",
            "The TensorBoard requests devices that the job's queue does not count, so the operator does not create it.",
        ),
    )

    # Records of runs (`tfoperator run`). In a cluster, a job outlives the command that has created it.

    RUN_TIMED_OUT = "RunTimedOut", _end(ConditionType.FAILED, "The run ended the job because the time limit was over.")
    RUN_INTERRUPTED = "RunInterrupted", _end(ConditionType.FAILED, "The job's run was interrupted.")
    RUN_DIED = "RunDied", _end(ConditionType.FAILED, "The job's run was killed, or its machine went down.")
    RUN_FAILED = (
        "RunFailed",
        _end(
            ConditionType.FAILED,
            "The run of the job failed because the job was deleted, or because of an error in `tfoperator run`.",
        ),
    )
    FINISHED_WHEN_INTERRUPTED = (
        "FinishedWhenInterrupted",
        _end(
            ConditionType.SUCCEEDED,
            "The job's run was interrupted, and the job finished within the grace period of the run.",
        ),
    )
