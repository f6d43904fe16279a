"""The operator in one thread: its controller, reconciler, caches and queue, each of which does one step at a time.

Left out are threads, the lease (the world decides who leads), HTTP, events (a list collects them) and metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from hack.enumeration.world.caches import CacheFeed, Filter
from hack.enumeration.world.clock import VirtualClock
from hack.enumeration.world.memory import places_of
from hack.enumeration.world.server import DirectClient, SimulatedServer
from hack.faults.oracle.events import SentEvent
from hack.sequential_client import plain
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.controller import (
    Collaborators,
    ControllerInformers,
    ControllerMetrics,
    ControllerOptions,
    TFJobController,
)
from tfoperator.controller.collaborators import PodWitnesses
from tfoperator.events import ObjectReference
from tfoperator.expectations import Expectations
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.protocol.errors import AlreadyExistsError, KubeError
from tfoperator.kube.protocol.verbs import Creation, Decoder
from tfoperator.local.apiserver.registry.registry import WriteResult
from tfoperator.operator.options.planning import plan_options
from tfoperator.operator.options.settings import Options
from tfoperator.operator.wiring import WRITE_DELAYS
from tfoperator.reconciler import Intervals, Reconciler
from tfoperator.workqueue import RateLimitingQueue

T = TypeVar("T")

_RETRY_BASE, _RETRY_CAP = 0.005, 120.0  # as in `tfoperator.operator.wiring`


class Crash(BaseException):
    """The process is killed at this very moment. The operator must not handle this exception."""


class _Events:
    """Takes the events that the operator reports."""

    def __init__(self) -> None:
        self.sent: list[SentEvent] = []

    def event(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.sent.append(SentEvent(regarding.name, type, reason, message))


class _Bugs(ControllerMetrics):
    """Raises what a sync must never fail with, instead of having it tried again."""

    def sync_failed(self, reason: str) -> None:
        """Note that a sync will be repeated."""
        if reason not in {subclass.__name__ for subclass in _subclasses(KubeError)}:
            raise RuntimeError(f"a sync failed unexpectedly: {reason}")


def _subclasses(error: type[Exception]) -> list[type[Exception]]:
    return [error, *(below for subclass in error.__subclasses__() for below in _subclasses(subclass))]


class ToldClient(DirectClient):
    """The operator's client: calls back before and after each write, and if a process creates its object `again`.

    A process that has to wait until its caches show an object that it made must not create it a second time for the
    same owner. Another owner is a later job of the same name. After `kubectl delete --cascade=orphan`, the pod of the
    deleted job keeps its name, and the later job must not adopt this pod. The operator then retries the creation until
    a user has deleted the pod.
    """

    def __init__(
        self,
        server: SimulatedServer,
        before: Callable[[], None],
        after: Callable[[], None],
        again: Callable[[str], None],
    ) -> None:
        super().__init__(server)
        self._before = before
        self._after = after
        self._again = again
        self._made: dict[str, frozenset[str]] = {}  # by the object's UID, the UIDs of the owners in the request

    def _create(self, request: Creation, decode: Decoder[T]) -> T:
        wanted = plain(request.body)["metadata"]
        owners = frozenset(str(reference["uid"]) for reference in wanted.get("ownerReferences") or ())
        try:
            done = super()._create(request, decode)
        except AlreadyExistsError:
            present = self._metadata_of(request, wanted["name"])
            if self._made.get(present["uid"]) == owners and not present.get("deletionTimestamp"):
                kind = request.resource.kind
                self._again(f"{kind} {present['name']} was asked for again by the process that had made it")
            raise
        self._made[self._metadata_of(request, wanted["name"])["uid"]] = owners
        return done

    def _metadata_of(self, request: Creation, name: str) -> dict[str, Any]:
        """The metadata of the object that was asked for."""
        stored = self._registry.get(self._type(request.resource), request.namespace, name)
        metadata: dict[str, Any] = stored.obj["metadata"]
        return metadata

    def around_write(self, write: Callable[[], WriteResult]) -> WriteResult:
        """Carry out a write, and tell of it."""
        self._before()
        try:
            return write()
        finally:
            self._after()  # also after a write that was refused


class _SteppedQueue(RateLimitingQueue[str]):
    """The operator's queue without the thread that delays items."""

    def _schedule(self, item: str, deadline: float) -> None:
        if self._thread is None:
            self._thread = _NO_THREAD  # type: ignore[assignment]
        super()._schedule(item, deadline)

    @property
    def due(self) -> float:
        """When the next delayed item is due."""
        return min((deadline for deadline, _ in self._due.values()), default=math.inf)

    def take_due(self) -> None:
        """Add the items that are due."""
        with self._delay_lock:
            ready = self._take_due()
        for item in ready:
            self.add(item)


_NO_THREAD = object()


class _SteppedReconciler(Reconciler):
    """The reconciler without its thread."""

    def begin(self) -> None:
        """Do what `start` does before it starts the thread."""
        self._rests_until = -math.inf
        jobs = self._jobs.list()
        now = self._clock.monotonic()
        self._thread = _NO_THREAD  # type: ignore[assignment]
        with self._lock:
            self._schedule.compared("", now, matched=False)
            waited_long = now - self._created >= self._cap
            for job in jobs:
                self._begin(job, now, within=self._base if waited_long else None)

    @property
    def due(self) -> float:
        """When it is to look."""
        due = -math.inf if self._wanted else self._schedule.due_at("")
        return max(math.inf if due is None else due, self._rests_until)

    def look(self) -> None:
        """One turn of the thread."""
        self._wanted = False
        try:
            self.reconcile()
        except KubeError:
            pass  # it tries again later
        self._rests_until = self._clock.monotonic() + self._base * 0.9


class SteppedOperator:
    """One process. Its caches fill at once, from `revision` where that is given; `lead` makes it work."""

    def __init__(
        self,
        server: SimulatedServer,
        clock: VirtualClock,
        options: Options,
        *,
        client: DirectClient,
        loses: Filter,
        revision_of: Callable[[str], int],
        inside: PodWitnesses,
    ) -> None:
        """`inside` looks into pods; `revision_of` returns for each kind the revision of the server that lists it."""
        self._clock = clock
        self._server = server
        self._client = client
        self.events = _Events()
        self.pause_between_events = 0.0
        """Seconds in which the operator does its work after each event, before a cache shows the next event."""
        self.shown: Callable[[str], None] = lambda _: None
        """Called with the kind of each event that a cache has shown."""
        self._next_event_at = 0.0
        self.syncs: list[tuple[str, float]] = []
        """The jobs that were looked at, by their keys, and when."""
        self._queue = _SteppedQueue(
            base=_RETRY_BASE, cap=_RETRY_CAP, bucket=TokenBucket(10.0, 100, clock=clock), clock=clock
        )
        factory = SharedInformerFactory(client, clock=clock)
        plans = plan_options(options, **WRITE_DELAYS)
        self._informers = ControllerInformers.of(factory, plans.gang, kueue=options.kueue)
        expectations = Expectations(clock=clock)
        outside = Collaborators(client, self.events, clock, _Bugs(), witnesses=inside)
        self._controller = TFJobController(
            outside,
            self._informers,
            queue=self._queue,
            expectations=expectations,
            options=ControllerOptions(threadiness=0, plan=plans),
        )
        self._reconciler = _SteppedReconciler(
            client,
            self._informers,
            self._controller,
            expectations=expectations,
            intervals=Intervals(options.resync_period, options.reconcile_max_period),
            clock=clock,
        )
        self.feeds = [
            CacheFeed(server, group, resource, client.decoders[resource, selection], selection, loses=loses)
            for (resource, selection), group in factory._groups.items()
        ]
        for feed in self.feeds:
            feed.start(revision_of(feed.kind))
        self._leads = False

    def lead(self) -> None:
        """Begin to work on jobs."""
        self._leads = True
        self._controller.start()
        self._reconciler.begin()

    def stop(self) -> None:
        """Be gone, as a killed process is."""
        for feed in self.feeds:
            feed.stop()

    def remembers(self, text: str) -> list[str]:
        """Return the places in the operator's memory that have this text, such as a UID: its caches are part of it."""
        roots = {"controller": self._controller, "reconciler": self._reconciler, "queue": self._queue}
        return places_of(text, roots, without=[self._client, self._server, self._clock, self.events, self.syncs])

    @property
    def due(self) -> float:
        """When there is something to do again, if nothing happens before."""
        times = [feed.due for feed in self.feeds]
        if self.pause_between_events and any(feed.next_revision < math.inf for feed in self.feeds):
            times.append(self._next_event_at)
        if self._leads:
            times += [self._queue.due, self._reconciler.due]
        return min(times)

    def step(self) -> bool:
        """Do one thing that can be done now; whether there was any. Caches come first, the oldest event before others.

        Raises Crash where the world decides it.
        """
        for feed in self.feeds:
            if feed.wants_list:
                feed.list_again()
                return True
        now = self._clock.monotonic()
        feed = min(self.feeds, key=lambda candidate: candidate.next_revision)
        rests = self.pause_between_events > 0 and now < self._next_event_at
        if feed.next_revision < math.inf and not rests:
            self._next_event_at = now + self.pause_between_events
            feed.show_next()
            self.shown(feed.kind)
            return True
        for feed in self.feeds:
            if feed.due <= now:
                feed.resync()
                return True
        return self._leads and self._work(now)

    def _work(self, now: float) -> bool:
        self._queue.take_due()
        if len(self._queue):
            key = self._queue.get()
            self.syncs.append((str(key), now))
            try:
                self._controller._process(key)
            finally:
                self._queue.done(key)
            return True
        if self._reconciler.due <= now:
            self._reconciler.look()
            return True
        return False
