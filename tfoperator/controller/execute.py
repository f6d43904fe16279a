"""Carries a plan out: expectations first, then API calls, and never one more than the plan says.

Nothing is decided here but how to go on when a call fails. A failed call never stops what is independent of it, the
status is written even so (it says what was observed), and what must be repeated is left to the next sync, which looks
at the whole state again: that is what makes a crash between any two calls harmless.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, NamedTuple, Protocol

import msgspec

from tfoperator.api.v1.types import TFJOBS, ConditionType, ReplicaType, TFJob, decode_tfjob
from tfoperator.clock import Clock, SystemClock
from tfoperator.controller.actions import Plan, PlannedEvent, PodCreate, PodDelete, ServiceCreate, ServiceDelete
from tfoperator.controller.claim import Claimer
from tfoperator.controller.execute_board import BoardExecutor
from tfoperator.controller.handlers import expectation_key
from tfoperator.controller.lost_answers import deleted_all_the_same
from tfoperator.controller.memory import JobMemory
from tfoperator.controller.messages import creation_events, deletion_events
from tfoperator.controller.metrics import ChildKind, ControllerMetrics, NoControllerMetrics
from tfoperator.controller.name_taken import NameTaken, Occupant, Taken, resolve
from tfoperator.controller.pod_groups import PodGroupWriter
from tfoperator.controller.slow_start import CallPool
from tfoperator.controller.status_patch import status_patch
from tfoperator.events import ObjectReference
from tfoperator.expectations import ExpectationKey, Expectations
from tfoperator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
)
from tfoperator.kube.resources import PODS, SERVICES, Resource
from tfoperator.kube.verbs import ApiClient

__all__ = ["Outcome", "PlanExecutor", "Recorder", "namespace_is_ending"]

logger = logging.getLogger(__name__)

_RESOURCES: dict[ChildKind, Resource] = {"pods": PODS, "services": SERVICES}  # of replicas
_FAILED_CREATE: dict[ChildKind, str] = {
    "pods": "FailedCreatePod",
    "services": "FailedCreateService",
    "podgroups": "FailedCreatePodGroup",
}
_SCHEDULING = "spec.runPolicy.schedulingPolicy"

_MAX_EVENT_MESSAGE = 1024
"""Characters; API servers refuse longer ones."""

_Create = PodCreate | ServiceCreate
_Delete = PodDelete | ServiceDelete
_Created = KubeError | Occupant | None  # None: it was created
_Objects = Sequence[tuple[ChildKind, _Create]]  # of one replica, in the order of their creation


class _Attempt(NamedTuple):
    kind: ChildKind
    one: _Create
    result: _Created


class Recorder(Protocol):
    """Where events go: `tfoperator.events.EventRecorder`, or a list in tests."""

    def event(
        self,
        regarding: ObjectReference,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the API's name
        reason: str,
        message: str,
    ) -> None:
        """Report something about an object; never blocks, never raises."""
        ...


class Outcome(msgspec.Struct):
    """How the execution went, as far as it matters for what happens next to the job.

    `errors` are to be repeated with growing delays, `waiting` says that something is in the way that goes away by
    itself, `refused` is what the API server will never accept of this spec, `gone` that there is no such job any more.
    `recorded`: the API server has the plan's status.
    """

    errors: list[KubeError] = []
    waiting: bool = False
    refused: str = ""
    gone: bool = False
    recorded: bool = False


class PlanExecutor:
    """Executes plans. Thread-safe, for different jobs at a time; the caller sees to one plan per job at a time."""

    def __init__(
        self,
        client: ApiClient,
        *,
        claimer: Claimer,
        pool: CallPool,
        expectations: Expectations,
        memory: JobMemory,
        recorder: Recorder,
        clock: Clock | None = None,
        metrics: ControllerMetrics | None = None,
        pod_groups: PodGroupWriter | None = None,
    ) -> None:
        """`pod_groups` only where there is a gang scheduler: without it, plans say nothing of PodGroups."""
        self._client = client
        self._pod_groups = pod_groups
        self._claimer = claimer
        self._pool = pool
        self._expectations = expectations
        self._memory = memory
        self._recorder = recorder
        self._clock = clock or SystemClock()
        self._metrics = metrics or NoControllerMetrics()
        self._board = BoardExecutor(client, claimer=claimer, expectations=expectations, memory=memory, emit=self._emit)

    def execute(self, job: TFJob, plan: Plan) -> Outcome:
        """Carry out a plan made for `job`. API errors are in the outcome, not raised."""
        outcome = Outcome()
        if plan.delete_job:
            self._delete_job(job, plan, outcome)
            return outcome
        if plan.write_status_first and not self._write_status(job, plan, outcome):
            return outcome
        self._delete_all(job, plan, outcome)
        self._delete_pod_group(job, plan, outcome)
        if self._write_pod_group(job, plan, outcome):
            self._create_all(job, plan, outcome)
        if outcome.refused:
            # The plan's status speaks of a job that could be started; the next plan will say what is wrong.
            return outcome
        if plan.board:
            board = self._board.execute(job, plan.board)
            outcome.errors += board.errors
            outcome.waiting = outcome.waiting or board.waiting
        if plan.write_status and not plan.write_status_first and not self._write_status(job, plan, outcome):
            return outcome
        self._emit(job, plan.events)
        return outcome

    def _delete_job(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        meta = job.metadata
        try:
            self._client.delete(TFJOBS, meta.namespace, meta.name, uid=meta.uid, propagation_policy="Background")
        except (NotFoundError, ConflictError):
            # Another job may have the name by now; this one is gone, which is all that was wanted.
            outcome.gone = True
        except KubeError as error:
            self._warn(job, "FailedDeleteJob", "Error deleting", [error])
            outcome.errors.append(error)
        else:
            logger.info("deleted after its time to live", extra={"job": meta.key})
            self._emit(job, (*plan.events, PlannedEvent("Normal", "SuccessfulDeleteJob", f"Deleted job: {meta.name}")))

    # Status.

    def _write_status(self, job: TFJob, plan: Plan, outcome: Outcome) -> bool:
        """Write the plan's status; False if that failed, the job is gone, or it was not as the plan took it to be."""
        patch = status_patch(job.status, plan.status)
        if patch is None:
            outcome.recorded = True
            return True
        meta = job.metadata
        # The patch is a difference, and means nothing on top of another status than the one it was made from: that of a
        # leader before us, whose last writes the cache has not shown yet, or that of a new job of the same name. (A
        # UID would not tell the latter apart: API servers ignore it in a write to `status`.)
        patch["metadata"] = {"resourceVersion": meta.resource_version}
        try:
            answer = self._client.patch(TFJOBS, meta.namespace, meta.name, patch, decode_tfjob, subresource="status")
        except NotFoundError as error:
            logger.info("the status is not written, the job is gone: %s", error, extra={"job": meta.key})
            outcome.gone = True
            return False
        except ConflictError:
            # What has changed is on its way to the cache.
            logger.debug("the status is not written yet, the job has changed", extra={"job": meta.key})
            outcome.waiting = True
            return False
        except KubeError as error:
            if isinstance(error, InvalidError):
                self._status_refused(job, error)
            outcome.errors.append(error)
            return False
        if answer.metadata.resource_version != meta.resource_version:
            self._memory.wrote(answer)
        outcome.recorded = True
        self._report_transitions(job, plan)
        return True

    def _status_refused(self, job: TFJob, error: InvalidError) -> None:
        """Say by an event, once, what the status can't: that the job breaks rules which are younger than it."""
        message = f"The API server refuses to record anything about this job until it is mended: {error.status.message}"
        if self._memory.first_warning(job.metadata.uid, "status"):
            self._emit(job, (PlannedEvent("Warning", "StatusRefused", message[:_MAX_EVENT_MESSAGE]),))

    def _report_transitions(self, job: TFJob, plan: Plan) -> None:
        if not plan.transitions:
            return
        meta = job.metadata
        self._metrics.job_transitions(meta.namespace, plan.transitions)
        logger.info("is now %s", ", ".join(sorted(plan.transitions)), extra={"job": meta.key})
        if meta.creation_timestamp is None:
            return
        age = max((self._clock.now() - meta.creation_timestamp).total_seconds(), 0.0)
        if ConditionType.RUNNING in plan.transitions and not _has_run(job):
            self._metrics.job_started(age)
        for condition in (ConditionType.SUCCEEDED, ConditionType.FAILED):
            if condition in plan.transitions:
                self._metrics.job_finished(age, succeeded=condition is ConditionType.SUCCEEDED)

    # Deletions.

    def _delete_all(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        self._expect_deletions(job, "pods", plan.delete_pods)
        self._expect_deletions(job, "services", plan.delete_services)
        calls = [partial(self._delete_one, job, "pods", pod, pod.grace_period_seconds) for pod in plan.delete_pods]
        calls += [partial(self._delete_one, job, "services", service, None) for service in plan.delete_services]
        results = self._pool.all(calls)
        failures = [error for error in results if error is not None]
        pods = [one.name for one, error in zip(plan.delete_pods, results, strict=False) if error is None]
        after = results[len(plan.delete_pods) :]
        services = [one.name for one, error in zip(plan.delete_services, after, strict=True) if error is None]
        self._metrics.children_deleted("pods", len(pods))
        self._metrics.children_deleted("services", len(services))
        self._emit(job, deletion_events(pods, services))
        if failures:
            reason = "FailedDeletePod" if len(pods) < len(plan.delete_pods) else "FailedDeleteService"
            self._warn(job, reason, "Error deleting", failures)
            outcome.errors += failures

    def _expect_deletions(self, job: TFJob, kind: ChildKind, deletes: Iterable[_Delete]) -> None:
        uids: dict[ExpectationKey, list[str]] = {}
        for one in deletes:
            uids.setdefault(_key(job, one.replica_type, kind), []).append(one.uid)
        for key, pending in uids.items():
            self._expectations.expect_deletions(key, pending)

    def _delete_one(self, job: TFJob, kind: ChildKind, one: _Delete, grace: int | None) -> KubeError | None:
        key = _key(job, one.replica_type, kind)
        try:
            self._client.delete(
                _RESOURCES[kind], job.metadata.namespace, one.name, uid=one.uid, grace_period_seconds=grace
            )
        except KubeError as error:
            namespace = job.metadata.namespace
            gone = deleted_all_the_same(self._client, _RESOURCES[kind], namespace, one.name, one.uid, error)
            # Of what is gone and still in the cache the watch will tell; of anything else nothing is to be expected.
            if not gone or not self._claimer.shows_alive(_RESOURCES[kind], namespace, one.name, one.uid):
                self._expectations.deletion_observed(key, one.uid)
            return None if gone else error
        logger.info("deleted %s %s: %s", kind[:-1], one.name, one.reason, extra={"job": job.metadata.key})
        return None

    # The PodGroup.

    def _delete_pod_group(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        if self._pod_groups is None or plan.delete_pod_group is None:
            return
        result = self._pod_groups.delete(job, plan.delete_pod_group)
        if isinstance(result, KubeError):
            self._warn(job, "FailedDeletePodGroup", "Error deleting", [result])
            outcome.errors.append(result)
        elif result:
            self._metrics.children_deleted("podgroups", 1)
            message = f"Deleted PodGroup: {plan.delete_pod_group.name}"
            self._emit(job, (PlannedEvent("Normal", "SuccessfulDeletePodGroup", message),))

    def _write_pod_group(self, job: TFJob, plan: Plan, outcome: Outcome) -> bool:
        """Create or change the PodGroup; False if its pods can't be created, for it is not there."""
        if self._pod_groups is None:
            return True
        if plan.patch_pod_group is not None:
            error = self._pod_groups.patch(job, plan.patch_pod_group)
            if error is not None:
                self._pod_group_failed(job, error, outcome, "Error changing PodGroup")
        if plan.create_pod_group is None:
            return True
        result = self._pod_groups.create(job, plan.create_pod_group)
        self._metrics.children_created("podgroups", int(result is None), int(result is not None))
        if isinstance(result, KubeError):
            self._pod_group_failed(job, result, outcome, "Error creating PodGroup")
        elif result is not None and result.taken is Taken.FOREIGN:
            self._name_is_taken(job, "podgroups", result.message)
            outcome.errors.append(NameTaken(result.message))
        elif result is not None:
            outcome.waiting = True
        return result is None or (isinstance(result, Occupant) and result.taken is Taken.OURS)

    def _pod_group_failed(self, job: TFJob, error: KubeError, outcome: Outcome, what: str) -> None:
        if isinstance(error, InvalidError):
            causes = "; ".join(f"{cause.field}: {cause.message}" for cause in error.causes)
            outcome.refused = f"{_SCHEDULING}: the API server refuses the PodGroup: {causes or error.status.message}"
        self._warn(job, _FAILED_CREATE["podgroups"], what, [error])
        outcome.errors.append(error)

    # Creations.

    def _create_all(self, job: TFJob, plan: Plan, outcome: Outcome) -> None:
        """Create replica by replica, a service before its pod, so that the first pods start while others are made."""
        replicas = _by_replica(plan)
        if not replicas:
            return
        wanted = Counter(_key(job, one.replica_type, kind) for replica in replicas for kind, one in replica)
        for key, count in wanted.items():
            self._expectations.expect_creations(key, count)
        try:
            results = self._pool.slow_start(
                [partial(self._create_replica, job, one) for one in replicas], ok=_all_created
            )
        except BaseException:
            # How many were created is unknown, and nobody will ever observe those that were not.
            for key in wanted:
                self._expectations.forget(key)
            raise
        for position in results.skipped:
            self._not_created(job, replicas[position])
        done = [attempt for attempts in results.done for attempt in attempts]
        services = self._judge(job, "services", [one for one in done if one.kind == "services"], outcome)
        pods = self._judge(job, "pods", [one for one in done if one.kind == "pods"], outcome)
        self._emit(job, creation_events(pods, services))

    def _create_replica(self, job: TFJob, objects: _Objects) -> list[_Attempt]:
        """What became of each, up to the first that isn't there: nobody would find a pod without its service."""
        attempts: list[_Attempt] = []
        for position, (kind, one) in enumerate(objects):
            result = self._create_one(job, kind, one)
            attempts.append(_Attempt(kind, one, result))
            if isinstance(result, KubeError) or (result is not None and result.taken is not Taken.OURS):
                self._not_created(job, objects[position + 1 :])
                break
        return attempts

    def _not_created(self, job: TFJob, objects: _Objects) -> None:
        for kind, one in objects:
            self._expectations.creation_observed(_key(job, one.replica_type, kind))

    def _create_one(self, job: TFJob, kind: ChildKind, one: _Create) -> _Created:
        resource = _RESOURCES[kind]
        try:
            self._client.create(resource, job.metadata.namespace, one.body, _ignore)
        except KubeError as error:
            self._expectations.creation_observed(_key(job, one.replica_type, kind))
            if not isinstance(error, AlreadyExistsError):
                return error
            try:
                replica = (one.replica_type, one.index)
                return resolve(self._client, self._claimer, job, resource, one.name, replica)
            except KubeError as second:
                return second
        return None

    def _judge(self, job: TFJob, kind: ChildKind, attempts: Sequence[_Attempt], outcome: Outcome) -> list[str]:
        """Put down how the creations of one kind went; returns the names of what was created."""
        created: list[str] = []
        failures: list[KubeError] = []
        taken = 0
        for _, one, result in attempts:
            if result is None:
                created.append(one.name)
            elif isinstance(result, KubeError):
                failures.append(result)
                if isinstance(result, InvalidError) and not outcome.refused:
                    outcome.refused = _refusal(kind, one, result)
            elif result.taken is Taken.FOREIGN:
                taken += 1
                self._name_is_taken(job, kind, result.message)
                outcome.errors.append(NameTaken(result.message))
            else:
                taken += result.taken is Taken.LEAVING
                outcome.waiting = True
        self._metrics.children_created(kind, len(created), len(failures) + taken)
        if failures:
            what = kind[:-1]
            self._warn(job, _FAILED_CREATE[kind], f"Error creating {what}", failures)
            outcome.errors += failures
        return created

    def _name_is_taken(self, job: TFJob, kind: ChildKind, message: str) -> None:
        if self._memory.first_warning(job.metadata.uid, message):
            logger.warning("%s", message, extra={"job": job.metadata.key})
            self._emit(job, (PlannedEvent("Warning", _FAILED_CREATE[kind], message),))

    # Events.

    def _warn(self, job: TFJob, reason: str, what: str, failures: Sequence[KubeError]) -> None:
        """Tell the job's owner what the API server refuses.

        Not what went wrong on our side: who owns a job can't mend that, and is not meant to read it, for the complaint
        of a credential plugin may hold anything.
        """
        answers = [one for one in failures if isinstance(one, ApiError) and not namespace_is_ending(one)]
        if answers:
            self._emit(job, (PlannedEvent("Warning", reason, f"{what}: {_summary(answers)}"),))

    def _emit(self, job: TFJob, events: Iterable[PlannedEvent]) -> None:
        for event in events:
            reference = ObjectReference.to(TFJOBS.api_version, TFJOBS.kind, job.metadata)
            self._recorder.event(reference, event.type, event.reason, event.message)


def namespace_is_ending(error: KubeError) -> bool:
    """Whether a write failed because its namespace is being deleted or gone: the job will follow, no retry helps."""
    if not isinstance(error, ApiError) or error.status.details is None:
        return False
    details = error.status.details
    if isinstance(error, ForbiddenError):
        return any(cause.reason == "NamespaceTerminating" for cause in details.causes)
    return isinstance(error, NotFoundError) and details.kind == "namespaces"


def _key(job: TFJob, replica_type: ReplicaType | None, kind: ChildKind) -> ExpectationKey:
    return expectation_key(job.metadata.uid, replica_type or "", kind)


def _by_replica(plan: Plan) -> list[_Objects]:
    replicas: dict[str, list[tuple[ChildKind, _Create]]] = {}
    for service in plan.create_services:
        replicas.setdefault(service.name, []).append(("services", service))
    for pod in plan.create_pods:
        replicas.setdefault(pod.name, []).append(("pods", pod))
    return list(replicas.values())


def _all_created(attempts: Sequence[_Attempt]) -> bool:
    return not any(isinstance(one.result, KubeError) for one in attempts)


def _refusal(kind: ChildKind, one: _Create, error: InvalidError) -> str:
    field = f"spec.tfReplicaSpecs[{one.replica_type}].template"
    causes = "; ".join(f"{cause.field}: {cause.message}" for cause in error.causes)
    return f"{field}: the API server refuses the {kind[:-1]}: {causes or error.status.message}"


def _summary(failures: Sequence[KubeError]) -> str:
    more = len(failures) - 1
    return f"{failures[0]} (and {more} more)" if more else str(failures[0])


def _has_run(job: TFJob) -> bool:
    started = (ConditionType.RUNNING, ConditionType.RESTARTING)
    return any(one.type in started and one.status != "Unknown" for one in job.status.conditions)


def _ignore(_: bytes) -> None:
    """Decode nothing: the watch brings what was created."""
