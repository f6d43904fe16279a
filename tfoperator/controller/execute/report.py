"""Reports the results of a phase's actions: in the outcome, in the metrics, and in events for the job's user.

A phase is a part of the plan, whose actions are carried out together. One event covers all objects that a phase created
or deleted, because each event costs a request to the API server. If an action for a required object fails, it is
retried; if the API server refuses the object permanently, the job becomes invalid. If a quota has no room for the
replacement of a pod that has just ended, the operator reports the lack of room only if it lasts. A failure with any
other object (of a TensorBoard, or a pod that must be stopped) is reported once per generation and retried: a job that
computes for days must not end because of its TensorBoard.

The messages are written for the readers of events. An event stays after its cause has ended, and everyone with the
right to read events in the namespace may read it. So an event contains no details about the operator itself, such as an
error of its credential plugin.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tfoperator.api.replicas.names import ANNOTATION_STOPPED, STOPPED_WITH_REPLICA
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.collaborators import Collaborators, Recorder
from tfoperator.controller.execute.outcome import (
    AlreadyReported,
    Applied,
    NameTaken,
    Outcome,
    Result,
    is_final,
    is_refusal,
    refusal,
)
from tfoperator.controller.execute.refusals import refusals_after
from tfoperator.controller.kinds import NOUNS, ObjectKind, OwnedKind
from tfoperator.controller.ledger import JobMemory
from tfoperator.controller.plan.values.actions import Action, Create, Delete, Patch, PlannedEvent
from tfoperator.events import ObjectReference
from tfoperator.kube.protocol.errors import ApiError, KubeError, exceeds_quota, namespace_is_ending

logger = logging.getLogger(__name__)

MAX_MESSAGE = 1024
"""The maximum number of characters of an event's message; API servers refuse longer messages."""

_MAX_NAMES = 5
_VERBS: tuple[tuple[type[Action], str], ...] = ((Create, "Create"), (Patch, "Change"), (Delete, "Delete"))
_COUNTED_KINDS: tuple[OwnedKind, ...] = ("services", "pods", "podgroups")

_STOPPED_BECAUSE = {
    False: "the job has ended",
    True: "the container tensorflow has ended, but other containers of the pod were still running",
}
"""The reason for stopping a pod. The key True is for a pod whose replica has ended while other containers still run."""

_DROPPED = "unknown field "
"""The beginning of an API server's warning about a field that it has dropped."""

_QUOTA_LAG = 5.0
"""If a ResourceQuota has no room for the replacement of an ended pod, the operator reports that only after this many
seconds. The quota controller sees the pod's end at the same time as the operator, and must then write the quota's
usage. Often the operator creates the replacement before that write.
"""


class JobEvents:
    """Writes the messages of events about jobs and hands them to the recorder. Thread-safe."""

    def __init__(self, recorder: Recorder, memory: JobMemory) -> None:
        """Initialize; `memory` has the events already sent about a job."""
        self._recorder = recorder
        self._memory = memory

    def emit(self, job: TFJob, events: Iterable[PlannedEvent]) -> None:
        """Record these events about the job."""
        for event in events:
            reference = ObjectReference.to(TFJOBS.api_version, TFJOBS.kind, job.metadata)
            self._recorder.event(reference, event.type, event.reason, event.message)

    def failed(
        self, job: TFJob, reason: JobReason, what: str, failures: Sequence[KubeError], *, once: bool = False
    ) -> None:
        """Report in an event what the API server refuses; the message begins with `what`.

        With `once`, only the first report for each generation of the job is made, even if the server's answers change.

        Errors on the operator's side are left out: the users who read the event can't fix them. These users must not
        read such errors either, because the error of a credential plugin may contain anything.
        """
        answers = [
            failure for failure in failures if isinstance(failure, ApiError) and not namespace_is_ending(failure)
        ]
        message = f"{what}: {_summary(answers)}" if answers else ""
        if answers and once:
            self.warn_once(job, reason, message, about=reason)
        elif answers:
            self.emit(job, (PlannedEvent.of(reason, message),))

    def warn_once(self, job: TFJob, reason: JobReason, message: str, *, about: str = "") -> None:
        """Report a lasting state, once per generation of the job.

        A report with the same `about` is not repeated; without `about`, a report with the same message is not repeated.
        Pass `about` if the message contains a server's answer, because its numbers may change ("used: cpu=57").
        """
        if self._memory.first_warning(job.metadata.uid, about or message):
            logger.warning("%s", message, extra={"job": job.metadata.key})
            self.emit(job, (PlannedEvent.of(reason, message[:MAX_MESSAGE]),))


class OutcomeReporter:
    """Reports the results of actions. It is thread-safe for different jobs at the same time."""

    def __init__(self, outside: Collaborators, events: JobEvents, memory: JobMemory) -> None:
        """Initialize; `memory` records for how long a quota has had no room for a job's pods."""
        self._events = events
        self._memory = memory
        self._clock = outside.clock
        self._metrics = outside.metrics

    def of(self, job: TFJob, applied: Sequence[Applied], outcome: Outcome) -> None:
        """Report the results of a phase, or of several phases of a plan that share their events.

        Add to `outcome` the errors for which the sync must be retried, and whether the sync must wait, for example
        until an old object with the same name is gone.
        """
        required = [attempt for attempt in applied if attempt.action.required]
        self._count(required)
        self._report_required(job, required, outcome)
        optional = [attempt for attempt in applied if not attempt.action.required]
        self._report_stops(job, [attempt for attempt in optional if attempt.action.kind == "pods"], outcome)
        self._report_tensorboard(job, [attempt for attempt in optional if attempt.action.kind != "pods"], outcome)
        if any(True for attempt in applied if attempt.result in (Result.OURS, Result.LEAVING)):
            outcome.waiting = True

    def unclaimed(self, job: TFJob, refused: Mapping[str, str], outcome: Outcome) -> None:
        """Report objects (names with reasons) that could not be adopted or released, and request a retry."""
        for name, message in refused.items():
            self._events.warn_once(job, JobReason.FAILED_CLAIM, message, about=f"{JobReason.FAILED_CLAIM} {name}")
            outcome.errors.append(AlreadyReported(message))

    def _count(self, applied: Sequence[Applied]) -> None:
        deletions = _done(applied, Delete)
        for kind in _COUNTED_KINDS:
            created = [
                attempt.result
                for attempt in applied
                if attempt.action.kind == kind and isinstance(attempt.action, Create)
            ]
            if created:
                missing = sum(result not in (Result.DONE, Result.OURS) for result in created)
                self._metrics.objects_created(kind, created.count(Result.DONE), missing)
            if kind in deletions:
                self._metrics.objects_deleted(kind, len(deletions[kind]))

    def _report_required(self, job: TFJob, applied: Sequence[Applied], outcome: Outcome) -> None:
        failures: dict[tuple[JobReason, str], list[KubeError]] = {}
        lags = self._quota_lags(job, applied)
        for attempt in applied:
            action, error, message = attempt.action, attempt.error, attempt.message
            if message:
                self._events.warn_once(job, _reason("Create", action), message)
                outcome.errors.append(NameTaken(message))
            if error is None:
                continue
            outcome.errors.append(error)
            if lags and _waits_for_quota(action, error):
                continue
            verb = next(verb for kind, verb in _VERBS if isinstance(action, kind))
            failures.setdefault((_reason(verb, action), _gerund(verb, action)), []).append(error)
            if isinstance(action, Create | Patch) and is_final(error) and not outcome.refused:
                outcome.refused = refusal(action.spec_field, NOUNS[action.kind], error)
        self._note_refusals(job, applied, lags=lags)
        for (reason, what), errors in failures.items():
            self._events.failed(job, reason, f"Error {what}", errors)
        for kind, verb in ((Delete, "Delete"), (Create, "Create")):
            self._events.emit(job, completion_events(verb, _done(applied, kind)))
        self._report_dropped(job, applied)

    def _report_dropped(self, job: TFJob, applied: Sequence[Applied]) -> None:
        """Report, once per generation of the job, the fields of pods that the API server does not know.

        The API server has created the pods without these fields.
        """
        dropped: dict[str, Create] = {}
        for attempt in applied:
            for text in attempt.warnings:
                if isinstance(attempt.action, Create) and attempt.action.kind == "pods" and text.startswith(_DROPPED):
                    dropped.setdefault(text.removeprefix(_DROPPED).strip('"'), attempt.action)
        if not dropped:
            return
        action, named = next(iter(dropped.values())), ", ".join(dropped)
        message = (
            f"The API server does not know these fields, and created pod {action.name} without them: {named}. "
            f"Correct their names in {action.spec_field}; `tfoperator validate` finds them."
        )
        self._events.warn_once(job, JobReason.FIELDS_IGNORED, message, about=f"{JobReason.FIELDS_IGNORED} {named}")

    def _note_refusals(self, job: TFJob, applied: Sequence[Applied], *, lags: bool) -> None:
        """Record why objects could not be created; the next plan writes the reasons into a condition of the job.

        If `lags` is true, pods for which a quota has no room now are left out, because the quota's usage may be old.
        """
        reported = [attempt for attempt in applied if not (lags and _waits_for_quota(attempt.action, attempt.error))]
        if not any(isinstance(attempt.action, Create) for attempt in reported):
            return
        uid = job.metadata.uid
        before = self._memory.not_created(uid)
        if before or any(attempt.error is not None or attempt.message for attempt in reported):
            self._memory.note_not_created(uid, refusals_after(before or {}, reported))
        elif before is None:
            self._memory.note_not_created(uid, {})

    def _quota_lags(self, job: TFJob, applied: Sequence[Applied]) -> bool:
        """Return whether a quota may lack room for replacements only because it still counts the replaced pods."""
        pods = [attempt for attempt in applied if attempt.action.kind == "pods" and isinstance(attempt.action, Create)]
        failed = [attempt for attempt in pods if attempt.error is not None]
        if any(_waits_for_quota(attempt.action, attempt.error) for attempt in failed):
            return self._memory.no_room(job.metadata.uid, self._clock.monotonic()) < _QUOTA_LAG
        if pods and not failed:
            self._memory.has_room(job.metadata.uid)
        return False

    def _report_tensorboard(self, job: TFJob, applied: Sequence[Applied], outcome: Outcome) -> None:
        for kind, verb in _VERBS:
            done = [f"{NOUNS[what]} {name}" for what, names in _done(applied, kind).items() for name in names]
            if done:
                event = PlannedEvent.of(JobReason(f"TensorBoard{verb}d"), f"{verb}d {' and '.join(done)}")
                self._events.emit(job, (event,))
        for action, error, message in ((attempt.action, attempt.error, attempt.message) for attempt in applied):
            if message:
                self._events.warn_once(job, JobReason.FAILED_TENSORBOARD, message)
                outcome.errors.append(NameTaken(message))
            elif is_refusal(error):
                what = f"{NOUNS[action.kind]} {action.name}"
                refused = f"Error with {what}: {error}"
                self._events.warn_once(
                    job, JobReason.FAILED_TENSORBOARD, refused, about=f"{JobReason.FAILED_TENSORBOARD} {what}"
                )
                outcome.errors.append(AlreadyReported(refused))
            elif error is not None:
                outcome.errors.append(error)

    def _report_stops(self, job: TFJob, applied: Sequence[Applied], outcome: Outcome) -> None:
        for with_replica, why in _STOPPED_BECAUSE.items():
            chosen = [attempt for attempt in applied if _stops_rest(attempt.action) is with_replica]
            if stopped := _done(chosen, Patch).get("pods"):
                message = (
                    f"Stopped {_listed('pod', stopped)}, because {why}; the pods stay, so that their logs can be read"
                )
                self._events.emit(job, (PlannedEvent.of(JobReason.SUCCESSFUL_STOP_POD, message),))
        # A probe is a pod that tests whether the cluster has room for another worker. If it is refused, it is tried
        # again without a message, because the job runs without it.
        refused = [
            attempt.error for attempt in applied if attempt.error is not None and isinstance(attempt.action, Create)
        ]
        outcome.errors += [AlreadyReported(str(error)) if is_refusal(error) else error for error in refused]
        failures = [
            attempt.error for attempt in applied if attempt.error is not None and not isinstance(attempt.action, Create)
        ]
        # One message for all pods: if a policy refuses to stop a pod, it usually refuses that for each pod of the
        # job.
        self._events.failed(job, JobReason.FAILED_STOP_POD, "Error stopping pods", failures, once=True)
        for error in failures:
            outcome.errors.append(AlreadyReported(str(error)) if is_refusal(error) else error)


def _stops_rest(stop: Action) -> bool:
    """Return whether the patch stops the remaining containers of a pod whose replica has ended."""
    return isinstance(stop, Patch) and stop.body["metadata"]["annotations"][ANNOTATION_STOPPED] == STOPPED_WITH_REPLICA


def _waits_for_quota(action: Action, error: KubeError | None) -> bool:
    return isinstance(action, Create) and action.replacement and error is not None and exceeds_quota(error)


def completion_events(verb: str, names: Mapping[ObjectKind, Sequence[str]]) -> tuple[PlannedEvent, ...]:
    """Return events about created or deleted objects: one for all pods and services, and one for each other object.

    `verb` is `Create` or `Delete`. The creation of a PodGroup is not reported, because only the scheduler needs the
    PodGroup.
    """
    pods, services = names.get("pods", ()), names.get("services", ())
    events: list[PlannedEvent] = []
    if pods:
        more = f" and {len(services)} {'service' if len(services) == 1 else 'services'}" if services else ""
        events.append(PlannedEvent.of(JobReason(f"Successful{verb}Pod"), f"{verb}d {_listed('pod', pods)}{more}"))
    elif services:
        message = f"{verb}d {_listed('service', services)}"
        events.append(PlannedEvent.of(JobReason(f"Successful{verb}Service"), message))
    if verb == "Delete":
        for name in names.get("podgroups", ()):
            events.append(PlannedEvent.of(JobReason.SUCCESSFUL_DELETE_POD_GROUP, f"Deleted PodGroup: {name}"))
        for name in names.get("tfjobs", ()):
            events.append(PlannedEvent.of(JobReason.SUCCESSFUL_DELETE_JOB, f"Deleted job: {name}"))
    return tuple(events)


def _done(applied: Sequence[Applied], kind: type[Action]) -> dict[ObjectKind, list[str]]:
    """Return the names of the objects for which an action of this type was executed, by the kind of the objects."""
    names: defaultdict[ObjectKind, list[str]] = defaultdict(list)
    for attempt in applied:
        if attempt.result is Result.DONE and isinstance(attempt.action, kind):
            names[attempt.action.kind].append(attempt.action.name)
    return names


def _reason(verb: str, action: Action) -> JobReason:
    """Return the reason for an event about a failure, such as `FailedCreatePod`.

    A failed change has the reason of a failed creation.
    """
    noun = "Job" if action.kind == "tfjobs" else NOUNS[action.kind]
    return JobReason(f"Failed{'Delete' if verb == 'Delete' else 'Create'}{noun[0].upper()}{noun[1:]}")


def _gerund(verb: str, action: Action) -> str:
    return "deleting" if verb == "Delete" else f"{verb[:-1].lower()}ing {NOUNS[action.kind]}"


def _listed(kind: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{kind}: {names[0]}"
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{len(names)} {kind}s: {', '.join(names[:_MAX_NAMES])}{more}"


def _summary(failures: Sequence[KubeError]) -> str:
    more = len(failures) - 1
    return f"{failures[0]} (and {more} more)" if more else str(failures[0])
