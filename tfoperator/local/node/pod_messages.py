"""Messages from other threads to a pod's worker: the end of a process, a new time limit, or a stop.

A single condition variable wakes the worker.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from tfoperator.base.clock import Clock
from tfoperator.local.node.container_record import ContainerRecord

SHORTEST_TERMINATION = 0.3
"""The minimum time from the deletion of a running pod to the removal of its object, in seconds. A shorter grace period
takes precedence.

A kubelet takes about as long. The minimum is necessary for `kubectl delete`, which gets the object, lists, and starts a
watch, all within 120 ms. Then it waits for the end of the object, which it identifies by its name. If a new object with
this name were created within this time, kubectl would wait for the end of the new object, forever.
"""


class Exit(NamedTuple):
    """The end of a container's process. `reason` is the runtime's reason, for example `OOMKilled`, or ""."""

    record: ContainerRecord
    code: int
    reason: str


class PodMessages:
    """The messages to a single worker. Thread-safe. Only the worker may call the methods that follow the property
    `over` in this class.

    To stop containers, the worker sends SIGTERM, waits for the grace period (by default `grace` seconds), and sends
    SIGKILL.
    """

    def __init__(self, clock: Clock, time_limit: int | None, grace: float, generation: int = 0) -> None:
        self._clock = clock
        self._grace = grace
        self._began = 0.0
        self._changed = threading.Condition()  # guards the fields below
        self._exits: list[Exit] = []
        self._stop_at: float | None = None  # set by a stop: the end of the grace period
        self._remove_at = 0.0  # set by a stop: the pod's object stays until then
        self._time_limit = time_limit
        self._generation = generation
        self._new_spec = False  # whether the spec has changed since the worker read its generation
        self._abandoned = False
        self._done = False

    def stop(self, grace: float | None = None) -> bool:
        """Stop the containers, then remove the pod's object. A later call can shorten the grace period.

        Return False if the pod has already ended: then the caller must remove the object.
        """
        with self._changed:
            if self._done:
                return False
            now = self._clock.monotonic()
            stop_at = now + (self._grace if grace is None else grace)
            if self._stop_at is None:
                self._remove_at = now + SHORTEST_TERMINATION
            if self._stop_at is None or stop_at < self._stop_at:
                self._stop_at = stop_at
                self._remove_at = min(self._remove_at, stop_at)
                self._changed.notify_all()
            return True

    def change_spec(self, generation: int, time_limit: int | None) -> None:
        """Act on the pod's spec of this generation: stop the containers `time_limit` seconds after the pod's start.

        If this time has already passed, the containers are stopped at once. The pod's object stays. With a `time_limit`
        of None, the pod has no limit. API servers allow clients to set and lower a pod's `activeDeadlineSeconds` while
        it runs. Changes of other fields, for example of an image, have no effect here.
        """
        with self._changed:
            if (generation, time_limit) != (self._generation, self._time_limit):
                self._generation, self._time_limit = generation, time_limit
                self._new_spec = True
                self._changed.notify_all()

    def abandon(self) -> None:
        """Kill all containers at once and report nothing, because the pod's object no longer exists."""
        with self._changed:
            self._abandoned = True
        self.stop(0.0)

    def add_exit(self, record: ContainerRecord, code: int, reason: str) -> None:
        """Report that a process has ended."""
        with self._changed:
            self._exits.append(Exit(record, code, reason))
            self._changed.notify_all()

    @property
    def over(self) -> bool:
        """Whether the worker has ended."""
        with self._changed:
            return self._done

    # The methods below are for the worker.

    def begin(self) -> None:
        """Record the pod's start: the time limit (`activeDeadlineSeconds`) counts from now."""
        self._began = self._clock.monotonic()

    def wait_for_removal(self) -> None:
        """Wait until the pod's object may be removed, if a stop was requested. Otherwise return at once.

        The object may be removed `SHORTEST_TERMINATION` seconds after the request for a stop, or at the end of the
        grace period if this is earlier.
        """
        with self._changed:
            while self._stop_at is not None and self._clock.wait_until(self._changed, self._remove_at):
                pass

    def finish(self) -> bool:
        """Accept no more messages.

        Return whether the worker must remove the pod's object. The worker must remove the object if a stop was
        requested and the object still exists.
        """
        with self._changed:
            self._done = True
            return self._stop_at is not None and not self._abandoned

    def take_exits(self) -> list[Exit]:
        """Return the ends of processes that were added since the last call."""
        with self._changed:
            exits, self._exits = self._exits, []
        return exits

    def take_generation(self) -> int:
        """Return the generation of the spec that the worker applies from now on."""
        with self._changed:
            self._new_spec = False
            return self._generation

    @property
    def abandoned(self) -> bool:
        """Whether the worker must not report anything any more."""
        return self._abandoned

    @property
    def stop_at(self) -> float | None:
        """The time on the monotonic clock when the grace period ends, if a stop was requested."""
        with self._changed:
            return self._stop_at

    @property
    def past_limit(self) -> bool:
        """Whether the time limit has passed."""
        limit = self._limit()
        return limit is not None and self._clock.monotonic() >= limit

    @property
    def ending(self) -> bool:
        """Whether a stop was requested, or the time limit has passed."""
        with self._changed:
            return self._stop_at is not None or self.past_limit

    def _limit(self) -> float | None:
        with self._changed:
            return None if self._time_limit is None else self._began + self._time_limit

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait for a stop, at most this many seconds. Return whether a stop was requested."""
        end = self._clock.monotonic() + seconds
        with self._changed:
            while self._stop_at is None and self._clock.wait_until(self._changed, end):
                pass
            return self._stop_at is not None

    def wait(self, due: Sequence[float]) -> None:
        """Wait until there is a message, until the time limit is reached, or until the earliest of the times `due`.

        A message is the end of a process, a stop, or a change of the spec. The times are on the monotonic clock.
        """
        with self._changed:
            while not self._exits and self._stop_at is None and not self._new_spec:
                limit = self._limit()
                times = due if limit is None else (*due, limit)
                if not self._clock.wait_until(self._changed, min(times, default=None)):
                    break

    def wait_for_exit(self, deadline: float, *, shorten: bool) -> bool:
        """Wait until a process ends. Return False if `deadline` passes before a process ends.

        With `shorten`, the end of the grace period of a stop is also a deadline. The method may also return True
        although no process has ended, for example after another message.
        """
        with self._changed:
            if shorten and self._stop_at is not None:
                deadline = min(deadline, self._stop_at)
            return bool(self._exits) or self._clock.wait_until(self._changed, deadline) or bool(self._exits)
