"""Events in the group `events.k8s.io`: the events of the core group, with newer names of fields and stricter rules.

Newer clients use this group. A cluster serves each event in both groups. This server stores an event with the names of
the core group, and converts it when a client reads or writes it in `events.k8s.io`.

The messages about an invalid event contain the same names of fields as the messages of kube-apiserver: the names in
Kubernetes' internal type. Most of these are the names in the core group. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfoperator.local.apiserver.errors import FieldProblem, invalid_value, required
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.resource_types import EVENTS, NEWER_EVENTS
from tfoperator.local.apiserver.storage.store import ServedView

_NEWER_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_OLDER_NAMES = {newer: older for older, newer in _NEWER_NAMES.items()}
_UNSET = ("firstTimestamp", "lastTimestamp", "count", "source")
_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_FIXED = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingController", "reportingInstance",
)  # fmt: skip
_TYPES = ("Normal", "Warning")


def older_event(obj: Json) -> Json:
    """Return an event of the group events.k8s.io with the API version and the field names of the core group."""
    renamed = {_OLDER_NAMES.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": EVENTS.api_version}


def _newer_event(obj: Json) -> Json:
    renamed = {_NEWER_NAMES.get(name, name): value for name, value in obj.items()}
    return {**renamed, "apiVersion": NEWER_EVENTS.api_version}


EVENT_VIEW = ServedView(NEWER_EVENTS, EVENTS, to_stored=older_event, from_stored=_newer_event)
"""The view of the stored events that the group events.k8s.io serves."""


def newer_event_problems(obj: Json, old: Json | None) -> Iterator[FieldProblem]:
    """Yield the problems of a new event, or of a changed event if `old` is given.

    Only the series of an event may change.
    """
    event = _internal(obj)
    yield from _general_problems(event)
    if old is None:
        yield from _problems_of_series(event)
        yield from _problems_of_new(event)
        return
    before = _internal(old)
    if (event.get("series") or None) != (before.get("series") or None):
        yield from _problems_of_series(event)
    for field in _FIXED:
        if (event.get(field) or None) != (before.get(field) or None):
            yield invalid_value(field, event.get(field), "field is immutable")


def _internal(obj: Json) -> Json:
    event = older_event(obj)
    event["reportingController"] = event.pop("reportingComponent", None)
    return event


def _general_problems(event: Json) -> Iterator[FieldProblem]:
    regarding, namespace = (event.get("involvedObject") or {}).get("namespace") or "", event["metadata"]["namespace"]
    if not event.get("eventTime"):
        if namespace != (regarding or "default"):
            yield invalid_value("involvedObject.namespace", regarding, "does not match event.namespace")
        return
    if not regarding and namespace not in ("default", "kube-system"):
        yield invalid_value("involvedObject.namespace", regarding, "does not match event.namespace")
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field):
            yield required(field)
    for field, most in _LONGEST.items():
        if len(event.get(field) or "") > most:
            yield invalid_value(field, "", f"can have at most {most} characters")


def _problems_of_series(event: Json) -> Iterator[FieldProblem]:
    series: dict[str, Any] | None = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid_value("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def _problems_of_new(event: Json) -> Iterator[FieldProblem]:
    if not event.get("eventTime"):
        yield required("eventTime")
    if event.get("type") not in _TYPES:
        yield invalid_value("type", "", f"has invalid value: {event.get('type') or ''}")
    for field in _UNSET:
        if event.get(field):
            yield invalid_value(field, "", "needs to be unset")
