"""The policies for a whole job: limits, restarts, cleanup, suspension, and gang scheduling."""

from typing import Annotated

import msgspec

from tfoperator.api.fields.field import GO_OPERATOR, Field
from tfoperator.api.fields.limits import MANAGED_BY, MAX_OBJECT_NAME_LENGTH, QUANTITY
from tfoperator.api.v1.choices import CleanPodPolicy, OnStall, OnStraggler, RestartMode, RestartScope


class SchedulingPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The user's settings for gang scheduling, which the operator passes on to the gang scheduler."""

    min_available: Annotated[
        int | None, Field("Number of pods that must be scheduled together; all pods if unset.", ge=0, since=GO_OPERATOR)
    ] = None
    schedule_timeout_seconds: Annotated[
        int | None,
        Field(
            "Seconds for which the gang scheduler waits until all pods of the gang can be scheduled.",
            ge=0,
            since=GO_OPERATOR,
        ),
    ] = None
    queue: Annotated[
        str | None,
        Field(
            "Queue of the gang scheduler. The queue can't be changed to another queue. If the field is removed, the "
            "PodGroup keeps its queue.",
            schema={"maxLength": MAX_OBJECT_NAME_LENGTH},
            unchangeable=True,
            since=GO_OPERATOR,
        ),
    ] = None
    min_resources: Annotated[
        dict[str, str | int] | None,
        Field("Resources that must be free before the job starts.", pattern=QUANTITY, since=GO_OPERATOR),
    ] = None
    priority_class: Annotated[str | None, Field("Priority class of the gang.", since=GO_OPERATOR)] = None


LEAST_PROGRESS_DEADLINE = 30
"""The minimum of `progressDeadlineSeconds`, in seconds.

In each half of the deadline, the operator reads the log of each pod that sends no reports. With a shorter deadline, the
operator would send too many requests.
"""


class RunPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Policies for the whole job, such as limits, cleanup and suspension."""

    clean_pod_policy: Annotated[
        str | None,
        Field(
            "Objects that the operator deletes after the job has ended: All (pods and services), Running (pods that "
            "still run) or None. If unset, and without --default-clean-pod-policy: after a failure the operator "
            "stops the running pods and keeps their logs; after a success workers and evaluators may finish, and "
            "then the operator stops the parameter servers.",
            choices=CleanPodPolicy,
            since=GO_OPERATOR,
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        Field(
            "Seconds after the end of the job after which the operator deletes it; never if unset.",
            ge=0,
            since=GO_OPERATOR,
        ),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds after the start of the job after which it fails, if it still runs.",
            ge=0,
            int64=True,
            since=GO_OPERATOR,
        ),
    ] = None
    start_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds after the job's start (or resumption) after which it fails if some of its replicas have not "
            "started; never if unset.",
            ge=1,
        ),
    ] = None
    backoff_limit: Annotated[
        int | None,
        Field(
            "Number of restarts after failures for all replicas together. For example, with 2 the job ends at the "
            "third failure.",
            ge=0,
            since=GO_OPERATOR,
        ),
    ] = None
    restart_scope: Annotated[
        str | None,
        Field(
            "Scope of a restart: only the failed Replica (if unset), or all replicas of the Job, which synchronous "
            "training needs. With Job, kubelets don't restart containers.",
            choices=RestartScope,
        ),
    ] = None
    restart_mode: Annotated[
        str | None,
        Field(
            "Where a failed replica restarts: in a new pod (Recreate, if unset), or in its existing pod (InPlace, "
            "which needs Kubernetes 1.35).",
            choices=RestartMode,
        ),
    ] = None
    progress_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds without progress, at least 30, after which a running job is Stalled. Progress is a report or, "
            "if no replica reports, a line in the logs of the chief and workers. Never if unset.",
            ge=LEAST_PROGRESS_DEADLINE,
        ),
    ] = None
    on_stall: Annotated[
        str | None,
        Field(
            "Action after a stall: Report (a condition and an event; if unset), Restart (the replicas that are "
            "behind, or, with restartScope Job, all replicas), or Fail (the job).",
            choices=OnStall,
        ),
    ] = None
    on_straggler: Annotated[
        str | None,
        Field(
            "Action for a replica that is slow, or fails on the same node again and again: Ignore (none, if unset), "
            "or Restart (on another node).",
            choices=OnStraggler,
        ),
    ] = None
    suspend: Annotated[
        bool | None,
        Field(
            "Whether the job is suspended; a suspended job has no pods. Queueing systems set this field.",
            default=False,
            since=GO_OPERATOR,
        ),
    ] = None
    managed_by: Annotated[
        str | None,
        Field(
            "Controller that manages the job; this operator if unset. The field can't be changed.",
            one_of=MANAGED_BY,
            since=GO_OPERATOR,
        ),
    ] = None
    scheduling_policy: Annotated[
        SchedulingPolicy | None, Field("Settings that the operator passes to the gang scheduler.", since=GO_OPERATOR)
    ] = None
