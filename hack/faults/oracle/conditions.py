"""Judges the conditions of a job, for people and programs, at each status: docs/tfjob.md, "The states of a job".

Reasons are the Go operator's, on which programs rely. Messages are checked only for what the page promises of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hack.faults.oracle.history import JobHistory, conditions_in

Json = dict[str, Any]

_STATES = ("Created", "Running", "Restarting", "Succeeded", "Failed", "Suspended")
"""The values that `kubectl get tfjobs` may show as State."""

_RESIZED = "TFJobResized"
_OTHER_REASONS = {"Failed": ("ProgressDeadlineExceeded", "TFJobInvalid"), "Restarting": (_RESIZED,)}
_NOT_RUNNING = ("Succeeded", "Failed")
_BUSY = ("Running", "Ready", "Restarting")
_ALWAYS = ("reason", "message", "lastUpdateTime", "lastTransitionTime")
_TIMES = ("lastUpdateTime", "lastTransitionTime")


def check_conditions(job: JobHistory, before: Json | None) -> Iterator[str]:
    """Yield what is wrong with the conditions of a job, whose status was different `before`."""
    every = conditions_in(job.status)
    old = {condition["type"]: condition for condition in conditions_in((before or {}).get("status") or {})}
    if not every or list(old.values()) == every:
        return
    if len({condition["type"] for condition in every}) < len(every):
        yield "it has two conditions of a type"
    last = every[-1]
    if last["status"] != "True" or last["type"] not in _STATES:
        yield f"its last condition, {last['type']}={last['status']}, is no state that it is in"
    for condition in every:
        for text in _check_condition(condition, old.get(condition["type"])):
            yield f"its condition {condition['type']} {text}"
    yield from _check_texts(job)


def _check_condition(condition: Json, old: Json | None) -> Iterator[str]:
    if missing := [name for name in _ALWAYS if not condition.get(name)]:
        yield f"lacks {' and '.join(missing)}"
        return
    kind, reason = condition["type"], condition["reason"]
    if (
        condition["status"] == "True"
        and kind in _STATES
        and reason not in (f"TFJob{kind}", *_OTHER_REASONS.get(kind, ()))
    ):
        yield f"is true, with the reason {reason}"
    if old is not None and old["status"] == condition["status"]:
        if old["lastTransitionTime"] != condition["lastTransitionTime"]:
            yield "is as it was, with another lastTransitionTime"
    elif condition["lastTransitionTime"] != condition["lastUpdateTime"]:
        yield "has changed, with a lastTransitionTime that is not its lastUpdateTime"
    if old is not None and old != condition and _without_times(old) == _without_times(condition):
        yield "has nothing new but a time"


def _without_times(condition: Json) -> Json:
    return {name: value for name, value in condition.items() if name not in _TIMES}


def _check_texts(job: JobHistory) -> Iterator[str]:
    conditions, ready = job.conditions(), job.status.get("ready")
    running, restarting = conditions.get("Running"), conditions.get("Restarting")
    if job.has_released_all and (busy := [kind for kind in _BUSY if job.holds(kind)]):
        yield f"it is suspended, or waits in its queue, and is {busy}"
    counts = running is not None and running["status"] != "Unknown" and not any(map(job.holds, _NOT_RUNNING))
    if (
        running is not None
        and counts
        and not job.has_released_all
        and not job.holds("Ready")
        and f"{ready} replicas ready" not in running["message"]
    ):
        yield f"{ready} replicas are ready, and its condition Running says: {running['message']}"
    if restarting is not None and restarting["status"] == "True" and restarting["reason"] != _RESIZED:
        pods = job.pods.values()
        lost = [pod.replica for pod in pods if pod.deleting or pod.in_place or pod.lost(job.policy(pod.replica[0]))]
        names = [f"{kind}-{index}" if job.together else kind for kind, index in lost]
        if not any(name in restarting["message"] for name in names):
            yield f"its condition Restarting names none that was lost: {restarting['message']}"


def check_failure(job: JobHistory) -> Iterator[str]:
    """Yield what is wrong with the message of a job that has just failed: for a replica it has name and exit code."""
    message = job.conditions()["Failed"]["message"]
    failed = [pod for pod in job.pods.values() if pod.failed_for_good(job.policy(pod.replica[0]))]
    if " failed because " not in message or job.stopped_by_limit or not failed:
        return
    named = [pod for pod in failed if f"{pod.replica[0]}-{pod.replica[1]}: " in message]
    if not any(pod.exit_code is None or f"code {pod.exit_code}" in message for pod in named):
        yield f"it has failed, and its message names no replica that has: {message}"
