"""Messages from other threads to a pod's worker: a process has ended, a time limit, stop. One condition wakes it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from tfoperator.base.clock import Clock
from tfoperator.local.node.container_record import ContainerRecord

SHORTEST_TERMINATION = 0.3
"""Minimum seconds from a live pod's deletion to its object's removal, unless the grace period is shorter.

A kubelet takes as long. `kubectl delete` gets the object, lists, and starts a watch, all within 120 ms; then it
waits for the end of the object by its name. If a successor of that name is created within this time, it waits for the
successor's end, forever.
"""


class Exit(NamedTuple):
    """The end of a container's process."""

    record: ContainerRecord
    code: int
    reason: str


class PodMessages:
    """The messages to one worker. Thread-safe. The methods after `over` are for the worker only.

    Containers are stopped by SIGTERM, a grace period of by default `grace` seconds, and SIGKILL.
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
        self._new_spec = False  # since the worker read the generation
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

        That may be at once, and the pod's object stays. API servers let a pod's `activeDeadlineSeconds` be set and
        lowered while it runs. Changes of other fields, such as an image, have no effect here.
        """
        with self._changed:
            if (generation, time_limit) != (self._generation, self._time_limit):
                self._generation, self._time_limit = generation, time_limit
                self._new_spec = True
                self._changed.notify_all()

    def abandon(self) -> None:
        """Kill everything at once and report nothing: the pod's object is gone."""
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
        """Whether the worker has finished."""
        with self._changed:
            return self._done

    # The methods below are for the worker.

    def begin(self) -> None:
        """Start the time limit."""
        self._began = self._clock.monotonic()

    def wait_for_removal(self) -> None:
        """Wait until the pod's object may be removed, if a stop was requested."""
        with self._changed:
            while self._stop_at is not None and self._clock.wait_until(self._changed, self._remove_at):
                pass

    def finish(self) -> bool:
        """Accept no more messages. Return whether to remove the pod's object, because a stop was requested."""
        with self._changed:
            self._done = True
            return self._stop_at is not None and not self._abandoned

    def take_exits(self) -> list[Exit]:
        """Return the process ends since the last call."""
        with self._changed:
            exits, self._exits = self._exits, []
        return exits

    def take_generation(self) -> int:
        """Return the generation of the spec that the worker acts on from now on."""
        with self._changed:
            self._new_spec = False
            return self._generation

    @property
    def abandoned(self) -> bool:
        """Whether nothing must be reported any more."""
        return self._abandoned

    @property
    def stop_at(self) -> float | None:
        """When the grace period ends, if a stop was requested."""
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
        """Wait for a stop, at most this many seconds. Return whether it was requested."""
        end = self._clock.monotonic() + seconds
        with self._changed:
            while self._stop_at is None and self._clock.wait_until(self._changed, end):
                pass
            return self._stop_at is not None

    def wait(self, due: Sequence[float]) -> None:
        """Wait for the end of a process, a stop, a change of the spec, one of these times, or the time limit."""
        with self._changed:
            while not self._exits and self._stop_at is None and not self._new_spec:
                limit = self._limit()
                times = due if limit is None else (*due, limit)
                if not self._clock.wait_until(self._changed, min(times, default=None)):
                    break

    def wait_for_exit(self, deadline: float, *, shorten: bool) -> bool:
        """Wait for the end of a process. Return False if `deadline` passes before a process ends.

        With `shorten`, the end of a stop's grace period is a deadline, too. Wake-ups may be spurious.
        """
        with self._changed:
            if shorten and self._stop_at is not None:
                deadline = min(deadline, self._stop_at)
            return bool(self._exits) or self._clock.wait_until(self._changed, deadline) or bool(self._exits)
