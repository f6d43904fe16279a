"""What the life of a container's attempts and a platform have to know of each other: `Launch` and `Backend`.

A log is forwarded in a thread of its own, so that it never delays the outcome: whatever happens to it (cut, rotated,
refused, a node that is gone), the launcher waits for the container. When that has ended, the log gets some seconds for
what is left.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.launcher.core import ContainerEnd, LaunchCancelled, LaunchContext, PermanentFailure, WorkDirectory
from tfoperator.logs.lines import LogConnection, LogCut, LogNotYet, LogReader, NoLog

LAUNCH_LABEL = "tfoperator.launcher/run"
"""On everything that a launch creates: the random piece of its names. Only what has it is ever adopted or deleted."""

_MAX_NAME = 40
"""Characters of the component's name in the names of objects: with run and attempt, and a TFJob's replica type and
index behind, a label's 63 suffice."""


T = TypeVar("T")


logger = logging.getLogger(__name__)

_PAUSE = (0.2, 5.0)  # seconds before the first repetition, and at most
_LAST_TRIES = 3  # once the container has ended
_KEEP_EVERY = 1.0  # seconds between two calls of `keep`


class LogForwarder:
    """Passes each line of a log to `log`, once. `start()`, then `finish()`, each once, from one thread.

    `connect` is that of a `LogReader`. `position` is what `keep` was given last, if a launcher before has forwarded
    some of the log; `keep` is called now and then, and at the end.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[str], LogConnection],
        log: Callable[[str], object],
        *,
        clock: Clock,
        position: str = "",
        keep: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._name = name
        self._log = log
        self._keep = keep
        self._clock = clock
        self._reader = LogReader(connect, self._forward, position)
        self._ended = StopSignal()
        self._stop = StopSignal()
        self._kept_at = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"log-{name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def end(self) -> None:
        """The container has ended: read what is left. Does not block; `finish` comes later."""
        self._ended.set()

    def finish(self, seconds: float = 10.0) -> None:
        """The container has ended: read what is left, for so many seconds at most, and stop."""
        self.end()
        self._thread.join(seconds)
        self._stop.set()
        self._reader.close()
        self._thread.join(5.0)
        if self._thread.is_alive():
            logger.warning("the log of %s does not end; some of its last lines may be missing", self._name)

    def _run(self) -> None:
        try:
            self._follow()
        except NoLog as error:
            level = logging.DEBUG if self._ended.is_set() else logging.WARNING  # a log goes with its container
            logger.log(level, "the log of %s can't be read: %s", self._name, error)
        except Exception:
            logger.exception("reading the log of %s failed; the component goes on", self._name)
        finally:
            self._keep(self._reader.position)

    def _follow(self) -> None:
        pause, late = _PAUSE[0], 0
        while not self._stop.is_set():
            ended = self._ended.is_set()  # asked before reading: what is written last must not be lost
            try:
                heard = self._reader.read()
                if ended:
                    self._reader.finish()
                    return
                pause = _PAUSE[0] if heard else min(pause * 2, _PAUSE[1])
            except LogCut as error:
                logger.debug("the log of %s was cut, reading on: %s", self._name, error)
                late += ended
                if ended and isinstance(error, LogNotYet):
                    return
                if late >= _LAST_TRIES:
                    logger.warning("the end of the log of %s can't be read: %s", self._name, error)
                    return
                pause = _PAUSE[0] * 2**late if ended else min(pause * 2, _PAUSE[1])
            (self._stop if ended else self._ended).wait(self._clock, pause)

    def _forward(self, lines: list[str]) -> None:
        for line in lines:
            self._log(line)
        now = self._clock.monotonic()
        if now - self._kept_at >= _KEEP_EVERY:
            self._kept_at = now
            self._keep(self._reader.position)


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
