"""The end of a run, and the state of its jobs and pods after this end. Pure.

When a run reads a TFJob for the last time, the TFJob may still be running: the run then stops and deletes the TFJob,
and does not read it again. This module writes the end of the run into the TFJob. So the page and the commands, which
read the TFJob, need no special case for a run that has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.api.replicas.names import ANNOTATION_STOPPED, STOPPED_WITH_RUN
from tfoperator.api.replicas.replica_pods import STOP_DEADLINE
from tfoperator.api.v1.condition_types import PASSING_CONDITIONS, ConditionType
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.state import RUN_ENDS
from tfoperator.api.v1.status import JobCondition, JobUsage, ReplicaStatus, TFJobStatus
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import utc, whole_second
from tfoperator.kube.protocol.resources import PODS
from tfoperator.report.facts import FinalState

DIED = "Died"
"""The state of a run whose process has ended without a result: it was killed, or its machine went down."""

_REASONS = {state: reason for reason, state in RUN_ENDS.items()}
_ENDED_PHASES = ("Succeeded", "Failed")
_LOST_EXIT_CODE = 137
_LOST_REASON = "ContainerStatusUnknown"
"""The reason of a container whose end was not observed. A kubelet writes this reason and `_LOST_EXIT_CODE`, too."""

PodPlace = tuple[str, str]
"""The namespace and the name of a pod."""

JobPlace = tuple[str, str]
"""The namespace and the name of a job."""

FINISHED_MESSAGE = "The run was interrupted, but the job finished within the grace period of the run."
"""The message about the success of a job that completed its training after the run was interrupted."""


class RunEnd(msgspec.Struct, frozen=True):
    """How and when a run ended. Every view of the run's jobs is made from this record.

    - `state` is the state of the run's result (`RunOutcome`), or `DIED`.
    - `at` is the time of the end. With `DIED`, it is the last time at which the run showed that it was alive.
    - `cause` is the reason if the run itself failed.
    - `replicas` contains the last states of the replicas that the run recorded, by namespace and pod.
    - `finished` contains jobs, by namespace and name, that completed their training after the run had asked them to
      stop.
    - `left` contains the IDs of processes that still run after the run has died. This happens if the run's guardian (a
      process that kills the programs of a run that has died) was killed, too.
    """

    state: str
    at: datetime
    cause: str = ""
    replicas: Mapping[PodPlace, FinalState] = {}
    finished: frozenset[JobPlace] = frozenset()
    left: tuple[int, ...] = ()

    @property
    def reason(self) -> str:
        """The reason in the condition Failed of a job that had not ended before the run ended."""
        return _REASONS.get(self.state, JobReason.RUN_FAILED)

    def message(self, job: str) -> str:
        """Return the message of the condition Failed of a job. `job` is the job's `namespace/name`."""
        if self.state == DIED:
            last_written = f"{utc(self.at):%Y-%m-%d %H:%M:%S} UTC"
            why = f"its run was killed, or the machine stopped. The run last wrote its records at {last_written}."
            if self.left:
                why += f" Programs of the run are still running. To end them: kill {' '.join(map(str, self.left))}"
        elif self.state == RUN_ENDS[JobReason.RUN_TIMED_OUT]:
            why = "the time limit of its run was over."
        elif self.state == RUN_ENDS[JobReason.RUN_INTERRUPTED]:
            why = "its run was interrupted."
        else:
            why = f"its run failed: {self.cause}" if self.cause else "its run failed."
        return f"TFJob {job} was stopped: {why}"


def ended_objects(objects: Iterable[Mapping[str, Any]], end: RunEnd) -> tuple[dict[str, Any], ...]:
    """Return the objects of a run in their state after its end. Objects that had ended before keep their outcome."""
    return tuple(_ended(obj, end) for obj in objects)


def _ended(obj: Mapping[str, Any], end: RunEnd) -> dict[str, Any]:
    if obj.get("kind") == TFJOBS.kind:
        job = decode_tfjob(msgspec.json.encode(obj))
        return {**obj, "status": msgspec.to_builtins(ended_status(job, end))}
    return _ended_pod(obj, end) if obj.get("kind") == PODS.kind else dict(obj)


def ended_status(job: TFJob, end: RunEnd) -> TFJobStatus:
    """Return the status of a job whose run has ended: the job has the condition Succeeded or Failed, and no active
    replicas.

    If a job had ended before the run ended, the job keeps its outcome and its times.
    """
    status = job.status
    at = whole_second(utc(end.at))
    if final_condition(job) is None:
        at = max((at, *(utc(moment) for moment in (status.start_time,) if moment is not None)))
        if (job.metadata.namespace, job.metadata.name) in end.finished:
            status = _with_end(
                status, ConditionType.SUCCEEDED, JobReason.FINISHED_WHEN_INTERRUPTED, FINISHED_MESSAGE, at
            )
        else:
            status = _with_end(status, ConditionType.FAILED, end.reason, end.message(job.metadata.key), at)
    elif status.completion_time is not None:
        at = utc(status.completion_time)
    total = sum(spec.desired for spec in job.spec.tf_replica_specs.values() if spec is not None)
    usage = None if status.usage is None else _closed(status.usage, at)
    elastic = status.elastic
    if elastic is not None and usage is not None:
        elastic = elastic.closed(usage.untrained(at))
    return msgspec.structs.replace(
        status,
        ready=f"0/{total}",
        replica_statuses={kind: _at_rest(counts) for kind, counts in status.replica_statuses.items()},
        completion_time=status.completion_time or at,
        progress=None if status.progress is None else status.progress.without_estimate(),
        usage=usage,
        elastic=elastic,
    )


def _with_end(status: TFJobStatus, kind: ConditionType, reason: str, message: str, at: datetime) -> TFJobStatus:
    def over(conditions: Iterable[JobCondition]) -> tuple[JobCondition, ...]:
        return tuple(
            JobCondition(condition.type, "False", reason, message, at, at)
            if condition.type in PASSING_CONDITIONS and condition.status != "False"
            else condition
            for condition in conditions
        )

    ended = JobCondition(kind, "True", reason, message, at, at)
    others = tuple(condition for condition in over(status.conditions) if condition.type != kind)
    return msgspec.structs.replace(
        status,
        phase=str(kind),
        conditions=(*others, ended),
        operator_conditions=over(status.operator_conditions),
    )


def _at_rest(status: ReplicaStatus) -> ReplicaStatus:
    return msgspec.structs.replace(status, active=0, ready=0)


def _closed(usage: JobUsage, at: datetime) -> JobUsage:
    """Return the usage of a job that ended at this time. A phase of a usage is what the job spends its time on.

    The seconds of the job's last phase include the time until `at`. The job holds no resources any more.
    """
    if not usage.phase:
        return usage
    resources = {
        name: msgspec.structs.replace(resource, in_use=0.0) for name, resource in usage.resources_until(at).items()
    }
    closed = msgspec.structs.replace(
        usage, phase="", since=at, seconds=usage.until(at), resources=resources, resources_since=at
    )
    return closed.with_goodput(at)


def _ended_pod(obj: Mapping[str, Any], end: RunEnd) -> dict[str, Any]:
    """Return a pod as it is after the run's end: all its containers have ended, and it is not being deleted."""
    metadata, spec, status = (_mapping(obj.get(member)) for member in ("metadata", "spec", "status"))
    has_ended = status.get("phase") in _ENDED_PHASES
    state = end.replicas.get((str(metadata.get("namespace")), str(metadata.get("name"))))
    was_stopped = not has_ended or "deletionTimestamp" in metadata
    if state is not None:
        was_stopped = state in (FinalState.STOPPED, FinalState.NEVER_RAN)
    for member in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
        metadata.pop(member, None)
    if was_stopped:
        metadata["annotations"] = {ANNOTATION_STOPPED: STOPPED_WITH_RUN, **_mapping(metadata.get("annotations"))}
        spec.setdefault("activeDeadlineSeconds", STOP_DEADLINE)
    if not has_ended:
        status["phase"] = "Succeeded" if state is FinalState.SUCCEEDED else "Failed"
    for member in ("containerStatuses", "initContainerStatuses"):
        if isinstance(status.get(member), list):
            status[member] = [_ended_container(container, end) for container in status[member]]
    return {**obj, "metadata": metadata, "spec": spec, "status": status}


def _mapping(value: Any) -> dict[str, Any]:
    """Return a copy of a mapping.

    For any other value, return an empty mapping, because users may have edited the records.
    """
    return dict(value) if isinstance(value, Mapping) else {}


def _ended_container(container: Any, end: RunEnd) -> Any:
    """Return a container's status after the run's end.

    A container that was running ended at `end.at`. A container that was waiting for its restart gets the end of its
    last attempt.
    """
    if not isinstance(container, Mapping):
        return container
    state, last = container.get("state"), container.get("lastState")
    if not isinstance(state, Mapping) or "terminated" in state:
        return container
    rest = {member: value for member, value in container.items() if member != "state"} | {
        "ready": False,
        "started": False,
    }
    running = state.get("running")
    if isinstance(running, Mapping):
        at = whole_second(utc(end.at)).isoformat().replace("+00:00", "Z")
        terminated = {"exitCode": _LOST_EXIT_CODE, "reason": _LOST_REASON, "finishedAt": at}
        began = {"startedAt": running["startedAt"]} if "startedAt" in running else {}
        return {**rest, "state": {"terminated": {**terminated, **began}}}
    if isinstance(last, Mapping) and "terminated" in last:
        return {**rest, "state": last, "lastState": {}}
    return container
