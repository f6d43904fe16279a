"""Judges the events of a job that nothing disturbed: each change of its state has an event (docs/tfjob.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hack.faults.journal import Journal
from hack.faults.oracle.history import JobHistory, Violation, conditions_in
from hack.faults.oracle.replay import replay

Json = dict[str, Any]

_ONE_EACH = ("TFJobSucceeded", "TFJobFailed", "TFJobSuspended", "TFJobResumed", "TFJobAdmitted", "TFJobQueued")
"""Reasons of events that are sent once for each time that the thing happens."""

_MOST_EXITS = 5
_MOST_IN_PLACE = 10


class SentEvent(NamedTuple):
    """An event about an object of this name."""

    name: str
    type: str
    reason: str
    message: str


def check_events(journal: Journal, sent: Sequence[SentEvent]) -> list[Violation]:
    """Return what is wrong with the events about all jobs of a journal."""
    jobs, _ = replay(journal)
    violations = []
    for name in dict.fromkeys(job.name for job in jobs):
        those = [job for job in jobs if job.name == name and not job.managed_elsewhere]
        about = [event for event in sent if event.name == name]
        changes = [change for job in those for change in _changes(journal, job.uid)]
        violations += [
            Violation("untold", name, text) for text in (*_of_states(changes, about), *_of_exits(those, about))
        ]
        violations += [Violation("untold", name, text) for text in _of_restarts_in_place(those, about)]
    return violations


def _changes(journal: Journal, uid: str) -> Iterator[tuple[str, str, str]]:
    """Type, reason and message of each condition that has become true, and of the end of a suspension or admission."""
    before: dict[str, str] = {}
    for entry in journal.entries:
        if entry.uid == uid and entry.what != "DELETED":
            now = {condition["type"]: condition for condition in conditions_in(entry.obj.get("status") or {})}
            for kind, condition in now.items():
                if condition["status"] != before.get(kind) and (
                    condition["status"] == "True" or kind in ("Suspended", "Admitted")
                ):
                    yield kind, str(condition["reason"]), str(condition["message"])
            before = {kind: str(condition["status"]) for kind, condition in now.items()}


def _of_states(changes: Sequence[tuple[str, str, str]], sent: Sequence[SentEvent]) -> Iterator[str]:
    happened = Counter(reason for kind, reason, _ in changes if reason in _ONE_EACH and kind != "Admitted")
    waits = Counter(reason for kind, reason, _ in changes if kind == "Admitted")
    happened["TFJobAdmitted"] = waits["Admitted"]
    happened["TFJobQueued"] = waits.total() - waits["Admitted"] - waits["TFJobSuspended"]
    events = Counter(event.reason for event in sent if event.reason in _ONE_EACH)
    if happened != events:
        yield f"{dict(happened)} has happened, and the events are {dict(events)}"
    for kind, reason, message in changes:
        if kind in ("Created", "Running", "Ready"):
            continue
        type_ = "Warning" if reason in ("TFJobFailed", "TFJobInvalid", "ProgressDeadlineExceeded") else ""
        if not any(event.message == message and event.type == (type_ or event.type) for event in sent):
            yield f"{kind} has changed, and no {type_} event reports this: {message}"


def _of_exits(jobs: Sequence[JobHistory], sent: Sequence[SentEvent]) -> Iterator[str]:
    """Check that each program that failed while its job went on, or ended it, has an event with its exit code."""
    for job in jobs:
        for pod in (pod for pod in job.pods.values() if pod.exit_code and not pod.infrastructure and not pod.stopped):
            is_reported = any(event.message.endswith(f".{pod.name} exited with code {pod.exit_code}") for event in sent)
            if not is_reported and pod.reasons <= {"failed"} and len(job.pods) <= _MOST_EXITS:
                yield f"pod {pod.name} exited with code {pod.exit_code}, and no event reports this"


def _of_restarts_in_place(jobs: Sequence[JobHistory], sent: Sequence[SentEvent]) -> Iterator[str]:
    """Check that a job's first restarts in place that its status has counted have exactly one event each."""
    messages = Counter(event.message for event in sent if event.reason == "RestartedInPlace")
    pods = [pod for job in jobs for pod in job.pods.values()]
    if sum(pod.in_place for pod in pods) > _MOST_IN_PLACE:
        return
    for pod in pods:
        name = f"{pod.replica[0].lower()}-{pod.replica[1]} "
        if pod.noted_in_place and not any(name in message for message in messages):
            yield f"pod {pod.name} was restarted in place, and no event reports this"
    pods_of = Counter(pod.name for pod in pods)
    for message, times in messages.items():
        if times > max((number for pod, number in pods_of.items() if f"in pod {pod}" in message), default=times):
            yield f"{times} events report the same restart in place: {message}"
