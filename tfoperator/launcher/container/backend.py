"""The interface between the launcher of containers and a platform: `Launch` and `Backend`.

A separate thread forwards the log of a container. So a problem with the log (a broken connection, a rotated file, a
lost node) does not end the launch. After the container's end, the launcher waits at most some seconds for the rest of
the log.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.launcher.core.context import LaunchContext
from tfoperator.launcher.core.errors import LaunchCancelled, PermanentFailure
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.logs.lines.reader import LogConnection, LogCut, LogNotYet, LogReader, NoLog

LAUNCH_LABEL = "tfoperator.launcher/run"
"""The label of every container, pod and TFJob of a launch. Its value is the random part of their names. A launcher
continues with, or deletes, only objects whose label has its own launch's value.
"""

_MAX_NAME = 40
"""The maximum number of characters of the component's name in an object's name. The random part, the attempt, and a
TFJob's replica type and index follow. A label must have space for the whole name (63 characters).
"""


logger = logging.getLogger(__name__)

_RETRY_SECONDS = (0.2, 5.0)  # the seconds before the first retry, and the maximum
_FINAL_TRIES = 3  # the attempts to read the rest of a log after the container's end
_KEEP_PERIOD = 1.0  # seconds between two calls of `keep`


class LogForwarder:
    """Passes each line of a container's log to `log` once. Call `start()` once, and then `finish()` once.

    `connect` opens the log from a position on ("" for the whole log). `keep` gets the position up to which the log was
    forwarded, about every second and at the end. If an earlier launcher has forwarded a part of the log, pass its last
    position as `position`. After an error or without new lines, the pauses between reads become longer. A new line, or
    the end of the container, makes them short again.
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
        """Start the thread that reads the log."""
        self._thread.start()

    def end(self) -> None:
        """Signal that the container has ended. The forwarder's thread then reads the rest of the log and ends.

        The call does not block. The caller calls `finish` later.
        """
        self._ended.set()

    def finish(self, seconds: float = 10.0) -> None:
        """Signal that the container has ended, and wait at most `seconds` for the rest of the log.

        After this time, the forwarder's thread is stopped.
        """
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
            # After the end of the container, its log may have been deleted together with the container.
            level = logging.DEBUG if self._ended.is_set() else logging.WARNING
            logger.log(level, "the log of %s can't be read: %s", self._name, error)
        except Exception:
            logger.exception("reading the log of %s failed; the component continues", self._name)
        finally:
            self._keep(self._reader.position)

    def _follow(self) -> None:
        pause, late = _RETRY_SECONDS[0], 0
        while not self._stop.is_set():
            ended = self._ended.is_set()  # checked before the read, so a read after the end gets the last lines
            try:
                heard = self._reader.read()
                if ended:
                    self._reader.finish()
                    return
                pause = _RETRY_SECONDS[0] if heard else min(pause * 2, _RETRY_SECONDS[1])
            except LogCut as error:
                logger.debug("the log of %s was interrupted, and is read further: %s", self._name, error)
                late += ended
                if ended and isinstance(error, LogNotYet):
                    return
                if late >= _FINAL_TRIES:
                    logger.warning("the last part of the log of %s can't be read: %s", self._name, error)
                    return
                pause = _RETRY_SECONDS[0] * 2**late if ended else min(pause * 2, _RETRY_SECONDS[1])
            (self._stop if ended else self._ended).wait(self._clock, pause)

    def _forward(self, lines: list[str]) -> None:
        for line in lines:
            self._log(line)
        now = self._clock.monotonic()
        if now - self._kept_at >= _KEEP_PERIOD:
            self._kept_at = now
            self._keep(self._reader.position)


class Mailbox:
    """A queue without a size limit, for messages from other threads to a backend. Thread-safe. Senders never block."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._arrived = threading.Condition()  # guards _items
        self._items: deque[object] = deque()

    def put(self, item: object) -> None:
        """Add a message; None only wakes the thread that waits in `take`."""
        with self._arrived:
            self._items.append(item)
            self._arrived.notify_all()

    def clear(self) -> None:
        """Drop all messages. Call it before a new attempt: the messages are from the earlier attempt."""
        with self._arrived:
            self._items.clear()

    def take(self, deadline: float | None = None) -> Any:
        """Return the oldest message. Wait if there is no message.

        Return None if the wait lasts until `deadline`, a time of `clock.monotonic()`, or if the oldest message is None.
        Without a deadline, the wait has no limit.
        """
        with self._arrived:
            while not self._items:
                if not self._clock.wait_until(self._arrived, deadline) and not self._items:
                    return None
            return self._items.popleft()


class NeverStarted(PermanentFailure):
    """The container did not start in time, for example because its image can't be pulled.

    The launcher removes the container.
    """


@dataclass(frozen=True)
class Launch:
    """The data of a launch for a backend. Any thread may set `cancelled`.

    `run` identifies the launch: it is the value of the label LAUNCH_LABEL of the launch's containers and objects.

    A backend waits for messages in `mailbox`. A cancellation of the launch puts None into the mailbox.
    """

    component: str
    run: str
    context: LaunchContext
    cancelled: StopSignal
    work: WorkDirectory
    mailbox: Mailbox
    # Held while a line is passed to `context.log`: each log has its own thread, and `log` expects one call at a time.
    _log_lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def forward_log(
        self, name: str, connect: Callable[[str], LogConnection], *, prefix: str = "", key: str = ""
    ) -> LogForwarder:
        """Start to forward a container's log, from the position where the last forwarding stopped.

        Each forwarded line begins with `prefix`. If a launch has several logs, such as the logs of a TFJob's replicas,
        each log needs a different `key`.
        """
        forwarder = LogForwarder(
            name,
            connect,
            lambda line: self._log_line(prefix + line),
            clock=self.context.clock,
            position=self.work.log_position(key),
            keep=lambda position: self.work.keep_log_position(position, key),
        )
        forwarder.start()
        return forwarder

    def _log_line(self, line: str) -> None:
        with self._log_lock:
            self.context.log(line)

    def check_cancelled(self, what: str) -> None:
        """Raise LaunchCancelled if the launch is cancelled. `what` names the stopped object in the message."""
        if self.cancelled.is_set():
            raise LaunchCancelled(f"component {self.component}: cancelled; {what} was stopped")


class Backend(Protocol):
    """The operations of a platform (Docker, pods, TFJobs) for one launch. Only one thread may use it.

    In the methods' docstrings, a container can also be a pod, a TFJob or a process. `name` is the name of an attempt's
    container. `uid` is what `create` returned: the platform's own ID of the container, so that another container with
    the same name is not taken for it. A process has none: its `uid` is the host name of the launcher's machine.

    The errors are PlatformUnavailable if the platform does not respond after all retries, PermanentFailure if the
    platform refuses a request in a way that a retry can't change, LaunchCancelled if the launch is cancelled meanwhile,
    and NeverStarted if the container does not start in time.
    """

    def create(self, name: str) -> str:
        """Create the container, or find the container of this name that this launch has created. Return its UID.

        Raises PermanentFailure, PlatformUnavailable, LaunchCancelled.
        """
        ...

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Wait until the container ends, and forward its log meanwhile.

        Raises LaunchCancelled, NeverStarted, PlatformUnavailable.
        """
        ...

    def ended(self, name: str, uid: str) -> ContainerEnd | None:
        """Return how the container ended, after the rest of its log was forwarded.

        Return None if it has not ended, or does not exist any more. `uid` is "" if the launcher does not know whether
        it has created the container. Raises PlatformUnavailable, PermanentFailure.
        """
        ...

    def stop(self, name: str, uid: str) -> None:
        """Stop the container gracefully, remove it, and wait until it no longer exists.

        `uid` is "" if the launcher does not know whether it has created the container.
        """
        ...

    def remove(self, name: str, uid: str) -> None:
        """Remove the container, which has ended, and its log and volumes. Some of them may be missing already."""
        ...


def object_name(component: str, run: str, attempt: int) -> str:
    """Return the name of an attempt's container, pod or TFJob, such as `trainer-x7k2p-1`.

    The name consists of the component's name (at most 40 characters), `run` (the random part of the launch's names) and
    the number of the attempt. The name is valid as a DNS label.
    """
    word = re.sub(r"[^a-z0-9]+", "-", component.lower()).strip("-")[:_MAX_NAME].strip("-")
    if not word[:1].isalpha():
        word = f"c-{word}".strip("-")  # a TFJob's services can't begin with a digit
    return f"{word}-{run}-{attempt}"
