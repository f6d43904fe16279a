"""What the life of a container's attempts and a platform have to know of each other: `Launch` and `Backend`."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.launcher.container.log_forwarder import LogForwarder
from tfoperator.launcher.core import ContainerEnd, LaunchCancelled, LaunchContext, PermanentFailure, WorkDirectory
from tfoperator.logs.lines import LogConnection

LAUNCH_LABEL = "tfoperator.launcher/run"
"""On everything that a launch creates: the random piece of its names. Only what has it is ever adopted or deleted."""

_MAX_NAME = 40
"""Characters of the component's name in the names of objects: with run and attempt, and a TFJob's replica type and
index behind, a label's 63 suffice."""


T = TypeVar("T")


class Mailbox(Generic[T]):
    """Thread-safe; unbounded, as senders must never wait for the outcome of a launch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrived = threading.Condition()  # guards _items
        self._items: deque[T] = deque()

    def put(self, item: T) -> None:
        """Send."""
        with self._arrived:
            self._items.append(item)
            self._arrived.notify_all()

    def take(self, deadline: float | None = None) -> T | None:
        """The oldest message; None if none comes until `deadline` (on `monotonic()`; None: wait for ever)."""
        with self._arrived:
            while not self._items:
                if not self._clock.wait_until(self._arrived, deadline) and not self._items:
                    return None
            return self._items.popleft()


class NeverStarted(PermanentFailure):
    """The container did not start in time; it is stopped, so that it does not start later."""


@dataclass(frozen=True)
class Launch:
    """The launch that a backend works for. `run` is the value of LAUNCH_LABEL; `cancelled` is set from any thread."""

    component: str
    run: str
    context: LaunchContext
    cancelled: StopSignal
    work: WorkDirectory
    # Held while a line is told: each log has a thread, and a line that another cuts in two belongs to neither.
    _telling: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def forward_log(
        self, name: str, connect: Callable[[str], LogConnection], *, prefix: str = "", key: str = ""
    ) -> LogForwarder:
        """Begin to forward a container's log from where it stopped; `key` distinguishes several logs of one launch."""
        forwarder = LogForwarder(
            name,
            connect,
            lambda line: self._tell(prefix + line),
            clock=self.context.clock,
            position=self.work.log_position(key),
            keep=lambda position: self.work.keep_log_position(position, key),
        )
        forwarder.start()
        return forwarder

    def _tell(self, line: str) -> None:
        with self._telling:
            self.context.log(line)

    def check_cancelled(self, what: str) -> None:
        """Raise LaunchCancelled if the launch is cancelled: `what` is about to be stopped."""
        if self.cancelled.is_set():
            raise LaunchCancelled(f"component {self.component}: cancelled; {what} was stopped")


class Backend(Protocol):
    """One platform, connected, for one launch. `wake` from any thread, the rest from one."""

    def create(self, name: str) -> str:
        """Create the container, or find the one of this name that this launch has created; returns its UID.

        Raises PermanentFailure, PlatformUnavailable, LaunchCancelled.
        """
        ...

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Wait for its end and forward its log meanwhile. Raises LaunchCancelled, NeverStarted, PlatformUnavailable."""
        ...

    def ended(self, name: str, uid: str) -> ContainerEnd | None:
        """How it has ended, and its log forwarded to the end; None if it has not, or is not there. `uid` as in `stop`.

        Raises PlatformUnavailable, PermanentFailure.
        """
        ...

    def stop(self, name: str, uid: str) -> None:
        """Stop and remove it, gracefully, and see that it is gone. `uid` is "" if it is not known whether it exists."""
        ...

    def remove(self, name: str, uid: str) -> None:
        """Remove what is left of it. It may be gone already."""
        ...

    def wake(self) -> None:
        """Make `wait` check whether the launch is cancelled."""
        ...


def object_name(component: str, run: str, attempt: int) -> str:
    """The name of what an attempt creates: a DNS label, of the component's name as far as that can be one."""
    word = re.sub(r"[^a-z0-9]+", "-", component.lower()).strip("-")[:_MAX_NAME].strip("-")
    if not word[:1].isalpha():
        word = f"c-{word}".strip("-")  # a TFJob's services can't begin with a digit
    return f"{word}-{run}-{attempt}"
