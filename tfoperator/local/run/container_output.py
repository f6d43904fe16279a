"""Reads the logs of all containers of a node while they are written, for people who watch.

Whoever shows the lines asks for them, so nothing piles up: a slow terminal, or a reader that doesn't read, leaves
them where they are, in the files. Containers write into those and are never slowed down.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.kube.event import Event
from tfoperator.kube.objects import Pod
from tfoperator.local.node import LogStore
from tfoperator.local.run.log_tail import UnreadLog
from tfoperator.local.run.results import RunOutcome
from tfoperator.local.runtime import LogFile
from tfoperator.local.usage import Usage

logger = logging.getLogger(__name__)

_AHEAD = 2 * 1024 * 1024
"""Bytes of one log that are read ahead of what has been shown."""

_AHEAD_OF_ALL = 32 * 1024 * 1024
_LEAST_AHEAD = 64 * 1024
_BLOCK = 256 * 1024
"""Bytes of one log that are read in a round where every line is shown."""


LEAST = 50
"""Lines in a round that are shown on the slowest terminal."""

MOST = 2000
"""Lines in a round that are shown on the fastest: more than anybody reads, and ten redraws a second."""

_SLOW = 0.1
"""Seconds for a round after which the next one is shorter: a person waits that long for an answer without noticing."""

_FAST = 0.03
"""Seconds for a round below which the next one may be longer."""

_BEHIND = 10
"""Rounds that it may take to show what is waiting; if it took more, lines are passed over."""

K = TypeVar("K")


class Pace(msgspec.Struct, frozen=True):
    """How many lines the next round may have."""

    lines: int = MOST // 2

    def after(self, shown: int, seconds: float) -> Pace:
        """The pace after a round that has shown so many lines in that time."""
        if seconds > _SLOW:
            return Pace(max(LEAST, self.lines // 2))
        if shown >= self.lines and seconds < _FAST:
            return Pace(min(MOST, self.lines * 2))
        return self


def fair_shares(waiting: Mapping[K, int], lines: int) -> dict[K, int]:
    """How many lines each log gets in a round: all that it has, or as many as any other; one at least, if it has any.

    The sum is `lines` at most, or one for each log if those are more.
    """
    shares: dict[K, int] = {}
    left = lines
    in_turn = sorted((log for log in waiting if waiting[log]), key=lambda log: waiting[log])
    for number, log in enumerate(in_turn):
        share = min(waiting[log], max(1, left // (len(in_turn) - number)))
        shares[log] = share
        left -= share
    return shares


def is_behind(waiting: int, share: int) -> bool:
    """Whether a log with so many lines to show, and that share of a round, must pass over some."""
    return waiting > _BEHIND * share


class LogChunk(msgspec.Struct, frozen=True):
    """What is new in one container's log: lines without their ends.

    Before them, `skipped` lines were passed over; the file `path` has them. `bar` is how an unfinished last line looks
    that is written over again and again, as progress bars are; "" if there is none.
    """

    namespace: str
    pod: str
    container: str
    attempt: int
    path: str
    lines: tuple[str, ...]
    skipped: int = 0
    bar: str = ""


class OutputReader:
    """Reads what has been appended to any log since the last time. Not thread-safe."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._tails: dict[LogFile, UnreadLog] = {}
        self._bars: dict[LogFile, str] = {}
        self.more = False
        """Whether there was more than was asked for."""

    def read(self, lines: int | None) -> list[LogChunk]:
        """One round: of each log its share of so many lines, or the next block with None, which passes over nothing.

        A log that is too far behind passes over lines, and goes on with its newest.
        """
        known = {log: (namespace, pod, container) for namespace, pod, container, log in self._store.all()}
        for log in known:
            if log not in self._tails:
                self._tails[log] = UnreadLog(log)
        active = [tail for tail in self._tails.values() if not tail.finished]
        waiting = self._fill(active, lines is not None)
        shares = waiting if lines is None else fair_shares(waiting, lines)
        chunks = []
        for tail in active:
            log, share = tail.log, shares.get(tail.log, 0)
            skipped, texts = tail.take(share, newest=is_behind(waiting[log], share))
            if texts or skipped or tail.bar != self._bars.get(log, ""):
                self._bars[log] = tail.bar
                place = (*known[log], log.attempt, str(log.path))
                chunks.append(LogChunk(*place, tuple(texts), skipped=skipped, bar=tail.bar))
        self.more = any(tail.more or waiting[tail.log] > shares.get(tail.log, 0) for tail in active)
        return chunks

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()

    def _fill(self, tails: Sequence[UnreadLog], may_skip: bool) -> dict[LogFile, int]:
        """Read ahead in each log; how many lines of it can be taken now."""
        ahead = max(_LEAST_AHEAD, min(_AHEAD, _AHEAD_OF_ALL // max(len(tails), 1))) if may_skip else _BLOCK
        waiting = {}
        for tail in tails:
            try:
                waiting[tail.log] = tail.fill(ahead, may_skip=may_skip)
            except OSError as error:
                logger.warning("can't read the log %s: %s", tail.log.path, error.strerror)
                tail.give_up()
                waiting[tail.log] = 0
        return waiting


class RunListener(Protocol):
    """Is told of every change. All calls come from the thread that runs the job; what they raise ends the run."""

    def job_changed(self, job: TFJob) -> None:
        """A job has been created or its status has changed."""
        ...

    def pod_changed(self, pod: Pod) -> None:
        """A pod has been created or its status has changed."""
        ...

    def pod_gone(self, pod: Pod) -> None:
        """A pod has been removed."""
        ...

    def event(self, event: Event) -> None:
        """An event was recorded."""
        ...

    shows_every_line: bool
    """Whether it wants each line that containers write, however long that takes; else lines are passed over."""

    def logged(self, chunks: Sequence[LogChunk]) -> None:
        """Containers have written something."""
        ...

    def stopping(self, outcome: RunOutcome) -> None:
        """The run is over, or is to be; what still runs is being stopped."""
        ...

    def page_link(self, url: str) -> None:
        """The page can be opened with this link, once."""
        ...

    shows_usage: bool
    """Whether it wants to know what containers use, every other second; nobody measures for one that doesn't."""

    def used(self, usage: Usage) -> None:
        """What containers use now."""
        ...

    def tick(self) -> None:
        """Some time has passed."""
        ...
