"""Turns many occurrences into few events.

The correlator combines similar events, counts equal events, and drops events when there are too many. Every event is
stored in etcd and costs an API call, so a job that fails in the same way for hours must not fill etcd or cost many
calls. The three steps and their limits are client-go's. The steps run in client-go's order: aggregate, count, filter.
The code does no I/O and reads no clock: each occurrence contains its time. A correlator serves one source (component
and host), so the keys of its state don't contain the source.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
from cachetools import LRUCache, TTLCache

from tfoperator.base.controlchars import in_utf8
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.kube.views.event import ObjectReference

MAX_MESSAGE = 1024
"""The maximum number of characters of a message. Longer messages are cut, because the events API refuses them."""

AGGREGATED_PREFIX = "(combined from similar events): "

_LRU_SIZE = 4096  # keys remembered by each step
_SIMILAR_LIMIT = 10  # the number of different messages (same object, type and reason) at which combining begins
_SIMILAR_SECONDS = 600.0  # after a pause of this length, similar occurrences are not combined
_SPAM_BURST = 25  # events at once about one object, per type
_SPAM_REFILL = 1 / 300  # events per second afterwards
_MAX_NAME = 253  # an event's name must be a DNS subdomain
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_Key = tuple[str, ...]


class Occurrence(msgspec.Struct, frozen=True):
    """Something that happened to an object, for example that a pod was created. It is not an event yet."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    at: datetime
    """Wall-clock time, for people."""
    monotonic: float
    """The same moment in seconds on a clock that never jumps. It is used for intervals."""


class CorrelatedEvent(msgspec.Struct, frozen=True):
    """The event `name` as the API server should store it: a new event if `count` is 1, or else a changed event.

    `last` has the message to show. The message of combined events may have a prefix.
    """

    name: str
    count: int
    first_seen: datetime
    last: Occurrence


class Correlator:
    """The state of the steps aggregate, count and filter. Not thread-safe.

    Each step keeps at most the 4096 keys that were used most recently.
    """

    def __init__(self) -> None:
        self._now = 0.0  # the monotonic time of the last occurrence
        # The distinct messages lately seen for one object, type and reason.
        self._similar: TTLCache[_Key, set[str]] = TTLCache(_LRU_SIZE, _SIMILAR_SECONDS, timer=lambda: self._now)
        self._counted: LRUCache[_Key, CorrelatedEvent] = LRUCache(_LRU_SIZE)
        self._allowances: LRUCache[_Key, TokenBucket] = LRUCache(_LRU_SIZE)
        self._last_stamp = 0

    def correlate(self, occurrence: Occurrence) -> CorrelatedEvent | None:
        """Return the event to write for this occurrence; None if there were too many events about its object."""
        key, message = self._aggregate(occurrence)
        event = self._count(key, msgspec.structs.replace(occurrence, message=message))
        return event if self._allow(occurrence) else None

    def _aggregate(self, occurrence: Occurrence) -> tuple[_Key, str]:
        group = (*object_key(occurrence.regarding), occurrence.type, occurrence.reason)
        self._now = occurrence.monotonic
        messages = self._similar[group] = self._similar.get(group, set())  # stored again: its lifetime restarts
        messages.add(occurrence.message)
        if len(messages) < _SIMILAR_LIMIT:
            return (*group, occurrence.regarding.field_path, occurrence.message), occurrence.message
        # The set keeps only the messages that have their own events. If such a message occurs again, its own event is
        # counted, and not the combined event.
        messages.discard(occurrence.message)
        return group, bounded(AGGREGATED_PREFIX + occurrence.message)

    def _count(self, key: _Key, occurrence: Occurrence) -> CorrelatedEvent:
        before = self._counted.get(key)
        if before is None:
            event = CorrelatedEvent(self._new_name(occurrence), 1, occurrence.at, occurrence)
        else:
            event = msgspec.structs.replace(before, count=before.count + 1, last=occurrence)
        self._counted[key] = event
        return event

    def _allow(self, occurrence: Occurrence) -> bool:
        key = (*object_key(occurrence.regarding), occurrence.type)
        allowance = self._allowances.get(key)
        if allowance is None:
            allowance = self._allowances[key] = TokenBucket(_SPAM_REFILL, _SPAM_BURST)
        return allowance.take(occurrence.monotonic)

    def _new_name(self, occurrence: Occurrence) -> str:
        """Return `{object}.{nanoseconds in hex}`. Two events of the same moment still get different names."""
        stamp = (occurrence.at - _EPOCH) // timedelta(microseconds=1) * 1000
        self._last_stamp = stamp = max(stamp, self._last_stamp + 1)
        suffix = f".{stamp:x}"
        return occurrence.regarding.name[: _MAX_NAME - len(suffix)].rstrip(".-") + suffix


def bounded(message: str) -> str:
    """Return the message as valid UTF-8. If it is longer than an event allows, cut it and add an ellipsis."""
    message = in_utf8(message)
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


def object_key(regarding: ObjectReference) -> _Key:
    """Return the fields that identify the object, without `resource_version` and `field_path`."""
    return (regarding.api_version, regarding.kind, regarding.namespace, regarding.name, regarding.uid)
