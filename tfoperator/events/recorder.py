"""Writes events to the API server in a background thread.

Recording an event must never delay or break the caller's work. Callers put occurrences into a bounded queue. One thread
correlates them and writes the events. Events only help people to understand what happened. So if the API server is too
slow, the recorder drops and counts events, and logs one warning. The recorder delays events while the operator has
other work, such as new jobs. So a burst of new jobs starts sooner.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from tenacity import RetryCallState, Retrying, before_sleep_log, retry_if_exception_type, stop_after_attempt

from tfoperator.base.clock import Clock, StopSignal, SystemClock
from tfoperator.events.correlator import CorrelatedEvent, Correlator, Occurrence, bounded, object_key
from tfoperator.kube.protocol.errors import (
    AlreadyExistsError,
    ApiError,
    KubeError,
    NotFoundError,
    TransportError,
    namespace_is_ending,
)
from tfoperator.kube.protocol.resources import EVENTS
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.event import ObjectReference
from tfoperator.kube.views.objects import decode_nothing, timestamp

logger = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]

_QUEUE_SIZE = 1000
_MAX_HELD = _QUEUE_SIZE // 2  # the maximum number of events that wait while other work has priority
_MAX_HOLD_SECONDS = 5.0  # the maximum wait of these events
_LOOK_PERIOD = 0.1  # seconds between two checks for other work
_MAX_TRIES = 12
_RETRY_SECONDS = 10.0
_NAMESPACE_OF_CLUSTER_OBJECTS = "default"  # an Event must have a namespace, even one about a Node


class _Stopping(Exception):
    """The recorder was stopped between two attempts to write an event."""


class EventRecorder:
    """Records events of one source. Thread-safe.

    Call `start()` once and `stop()` once. Events that are recorded before the start wait in the queue. Events that are
    recorded after the stop are dropped. If a write gets no response, the recorder retries: 12 attempts in all, 10 s
    apart. The first pause is random, so several operators don't retry at the same time. Any response of the API server
    is final: the recorder does not retry.

    Before each event the recorder calls `behind()`. While `behind()` returns True, other work has priority. The
    recorder then delays the event for at most 5 s. After that it writes this event and all events that were recorded
    meanwhile. `behind` must not block. The recorder never delays a warning. Before a warning, it writes the delayed
    events about the warning's object, so that the events of one object keep their order.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        component: str,
        host: str = "",
        clock: Clock | None = None,
        rng: random.Random | None = None,
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._behind = behind
        self._correlator = Correlator()  # used by the thread alone
        self._stop = StopSignal()
        self._changed = threading.Condition()  # guards the fields below
        self._queue: deque[Occurrence] = deque()  # events to write now
        self._held: deque[Occurrence] = deque()  # events that wait while other work has priority, for a limited time
        self.dropped = 0
        """The number of occurrences that were not written because the queue was full or the recorder had stopped."""
        self._overflowing = False  # from the first drop until half of the queue is free again
        self._flush_until = float("inf")
        self._thread: threading.Thread | None = None
        self._retrying = Retrying(
            retry=retry_if_exception_type(TransportError),
            stop=stop_after_attempt(_MAX_TRIES),
            wait=self._pause_after,
            sleep=self._pause,
            before_sleep=before_sleep_log(logger, logging.DEBUG),
            reraise=True,
        )

    def event(self, regarding: ObjectReference, type: EventType, reason: str, message: str) -> None:  # noqa: A002 - the API's name
        """Report an occurrence about an object. `reason` is in CamelCase for machines, `message` is for people.

        The call never blocks and never raises. A message is cut at 1024 characters.
        """
        occurrence = Occurrence(regarding, type, reason, bounded(message), self._clock.now(), self._clock.monotonic())
        with self._changed:
            full = len(self._queue) + len(self._held) >= _QUEUE_SIZE
            if full or self._stop.is_set():
                self.dropped += 1
                announce = full and not self._overflowing
                self._overflowing = self._overflowing or full
            else:
                announce = False
                self._held.append(occurrence)
                if type == "Warning":
                    self._release(regarding)
                elif len(self._held) >= _MAX_HELD:
                    self._release()
                if self._queue or len(self._held) == 1:
                    self._changed.notify()
        if announce:
            logger.warning(
                "%d events wait to be written: further events are dropped until fewer events wait", _QUEUE_SIZE
            )

    def start(self) -> None:
        """Begin to write. Raises RuntimeError if called twice."""
        with self._changed:
            if self._thread is not None:
                raise RuntimeError("this event recorder was already started once")
            self._thread = threading.Thread(target=self._run, name="event-recorder", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 5.0) -> bool:
        """Write the queued events without retries, for at most `timeout` seconds, then end. Idempotent.

        Returns whether the thread has ended (a request in flight can delay it).
        """
        with self._changed:
            if not self._stop.is_set():
                self._flush_until = self._clock.monotonic() + timeout
            self._stop.set()
            self._changed.notify_all()
            thread = self._thread
        if thread is None:
            self._discard_queue()
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        while (occurrence := self._next()) is not None:
            try:
                event = self._correlator.correlate(occurrence)
                if event is not None:
                    self._write(event)
            except Exception:
                # If one event can't be written, for any reason, the other events must still be written.
                logger.exception(
                    "event %s about %s can't be sent, and is lost", occurrence.reason, occurrence.regarding
                )

    def _next(self) -> Occurrence | None:
        with self._changed:
            self._await_due()
            if self._queue and self._clock.monotonic() < self._flush_until:
                if len(self._queue) + len(self._held) <= _MAX_HELD:
                    self._overflowing = False
                return self._queue.popleft()
        self._discard_queue()
        return None

    def _await_due(self) -> None:
        """Wait until there is an event to write, or until the recorder stops. The caller holds the lock."""
        while not self._queue:
            if self._stop.is_set():
                self._release()
                return
            deadline = None
            if self._held:
                now, deadline = self._clock.monotonic(), self._held[0].monotonic + _MAX_HOLD_SECONDS
                if deadline <= now:
                    self._release()
                    return
                if not self._behind():
                    self._queue.append(self._held.popleft())
                    return
                deadline = min(deadline, now + _LOOK_PERIOD)
            self._clock.wait_until(self._changed, deadline)

    def _release(self, regarding: ObjectReference | None = None) -> None:
        """End the delay of events: of all delayed events, or of all about one object. The caller holds the lock."""
        held, self._held = self._held, deque()
        released = None if regarding is None else object_key(regarding)
        for event in held:
            (self._queue if released in (None, object_key(event.regarding)) else self._held).append(event)

    def _write(self, event: CorrelatedEvent) -> None:
        try:
            self._retrying(self._send, event)
        except _Stopping:
            # The server does not answer, so each further event would take another time-out.
            self._discard_queue(also=1)
        except AlreadyExistsError:
            pass  # the response to an earlier attempt was lost
        except ApiError as error:
            log = logger.debug if namespace_is_ending(error) else logger.warning
            log("the server refuses event %s about %s: %s", event.last.reason, event.last.regarding, error)
        except KubeError as error:
            logger.warning("event %s about %s is not written: %s", event.last.reason, event.last.regarding, error)

    def _pause_after(self, state: RetryCallState) -> float:
        return _RETRY_SECONDS * (self._rng.random() if state.attempt_number == 1 else 1.0)

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(self._clock, seconds):
            raise _Stopping

    def _send(self, event: CorrelatedEvent) -> None:
        last = event.last
        namespace = last.regarding.namespace or _NAMESPACE_OF_CLUSTER_OBJECTS
        if event.count > 1:
            change = {"count": event.count, "lastTimestamp": timestamp(last.at), "message": last.message}
            try:
                self._client.patch(EVENTS, namespace, event.name, change, decode_nothing)
                return
            except NotFoundError:
                # The API server deletes events after an hour; then the event is created again, with its count.
                pass
        self._client.create(EVENTS, namespace, self._manifest(event, namespace), decode_nothing)

    def _manifest(self, event: CorrelatedEvent, namespace: str) -> dict[str, Any]:
        source = {"component": self._component, "host": self._host} if self._host else {"component": self._component}
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": event.name, "namespace": namespace},
            "involvedObject": msgspec.to_builtins(event.last.regarding),
            "reason": event.last.reason,
            "message": event.last.message,
            "type": event.last.type,
            "count": event.count,
            "firstTimestamp": timestamp(event.first_seen),
            "lastTimestamp": timestamp(event.last.at),
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }

    def _discard_queue(self, also: int = 0) -> None:
        with self._changed:
            lost = len(self._queue) + len(self._held) + also
            self.dropped += lost
            self._queue.clear()
            self._held.clear()
        if lost:
            logger.warning("%d events were not written, because the recorder is stopping", lost)
