"""Reads the logs of all containers of a node while they are written, for a terminal that shows them.

The code for the terminal works in rounds, about ten times a second: it requests some lines of all logs, and shows them.
Therefore memory contains only a small number of lines: if the terminal is slow, the other lines stay in the files. The
containers write to the files, so a slow terminal never slows them down.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import Pod
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.run.log_tail import UnreadLog
from tfoperator.local.run.results import RunOutcome
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.usage import Usage

logger = logging.getLogger(__name__)

_READ_AHEAD = 2 * 1024 * 1024
"""The maximum number of bytes of one log that are in memory before their lines are shown."""

_TOTAL_AHEAD = 32 * 1024 * 1024
_MIN_AHEAD = 64 * 1024
_BLOCK_SIZE = 256 * 1024
"""The number of bytes of one log that are read per round if every line is shown."""


LEAST = 50
"""The number of lines per round on the slowest terminal."""

MOST = 2000
"""The number of lines per round on the fastest terminal. The terminal shows such a round about ten times a second,
which is more than a user can read.
"""

_SLOW_ROUND = 0.1
"""If a round takes more seconds than this, the next round is shorter. Users do not notice a delay of this length,
for example after Ctrl-C.
"""

_FAST_ROUND = 0.03
"""If a round takes fewer seconds than this, the next round may be longer."""

_MAX_ROUNDS_BEHIND = 10
"""The number of rounds within which the waiting lines must be shown. If more rounds would be necessary, lines are
skipped.
"""

K = TypeVar("K")


class OutputPace(msgspec.Struct, frozen=True):
    """The maximum number of log lines that the terminal shows in the next round (about 0.1 seconds)."""

    lines: int = MOST // 2

    def after(self, shown: int, seconds: float) -> OutputPace:
        """Return the pace after a round in which the terminal has shown `shown` lines in `seconds` seconds."""
        if seconds > _SLOW_ROUND:
            return OutputPace(max(LEAST, self.lines // 2))
        if shown >= self.lines and seconds < _FAST_ROUND:
            return OutputPace(min(MOST, self.lines * 2))
        return self


def fair_shares(waiting: Mapping[K, int], lines: int) -> dict[K, int]:
    """Return how many lines each log gets in a round: all of its lines, or an equal share.

    `waiting` is the number of unread lines of each log. `lines` is the number of lines to distribute. A log that has
    unread lines gets at least one line. So the sum is at most `lines`, except if more than `lines` logs have unread
    lines. Then each of these logs gets one line.
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
    """Return whether a log with `waiting` unread lines must skip lines, if each round shows `share` lines of it."""
    return waiting > _MAX_ROUNDS_BEHIND * share


class LogChunk(msgspec.Struct, frozen=True):
    """New content of one container's log: lines without line ends.

    `skipped` is the number of lines that were skipped before these lines. The file `path` contains them. `bar` is an
    incomplete last line that a program rewrites with carriage returns, as progress bars do; "" if there is none.
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
    """Reads the content that was added to any log since the last call. Not thread-safe."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._tails: dict[LogFile, UnreadLog] = {}
        self._bars: dict[LogFile, str] = {}
        self.more = False
        """Whether the logs had more lines than the caller requested."""

    def read(self, lines: int | None) -> list[LogChunk]:
        """Return the output for one round of the terminal. The logs share `lines` lines (`fair_shares`). With None,
        return the next block of each log, and skip nothing.

        If a log has too many lines that are not read yet, lines are skipped, and reading continues with its newest
        lines.
        """
        places = {log: (namespace, pod, container) for namespace, pod, container, log in self._store.all()}
        for log in places:
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
                place = (*places[log], log.attempt, str(log.path))
                chunks.append(LogChunk(*place, tuple(texts), skipped=skipped, bar=tail.bar))
        self.more = any(tail.more or waiting[tail.log] > shares.get(tail.log, 0) for tail in active)
        return chunks

    def close(self) -> None:
        """Close the files."""
        for tail in self._tails.values():
            tail.close()

    def _fill(self, tails: Sequence[UnreadLog], may_skip: bool) -> dict[LogFile, int]:
        """Read a part of each log in advance. Return how many lines of this part can be taken now."""
        ahead = max(_MIN_AHEAD, min(_READ_AHEAD, _TOTAL_AHEAD // max(len(tails), 1))) if may_skip else _BLOCK_SIZE
        waiting = {}
        for tail in tails:
            try:
                waiting[tail.log] = tail.fill(ahead, may_skip=may_skip)
            except OSError as error:
                logger.warning("can't read the log %s: %s", tail.log.path, error.strerror)
                tail.give_up()
                waiting[tail.log] = 0
        return waiting


class RunListener:
    """Receives every change of a run. The methods of this class do nothing.

    Subclasses override the methods. The thread that calls `JobRun.execute` makes all calls. If a call raises an
    exception, the run ends.
    """

    shows_every_line = False
    """Whether the listener needs every line that containers write, even if this takes long. Otherwise lines are
    skipped.
    """
    shows_usage = False
    """Whether the listener needs the containers' usage every two seconds. If not, the usage is not measured for this
    listener.
    """

    def job_changed(self, job: TFJob) -> None:
        """Handle a job that was created or whose status has changed."""

    def pod_changed(self, pod: Pod) -> None:
        """Handle a pod that was created or whose status has changed."""

    def pod_gone(self, pod: Pod) -> None:
        """Handle a pod that was removed."""

    def event(self, event: Event) -> None:
        """Handle a recorded event."""

    def logged(self, chunks: Sequence[LogChunk]) -> None:
        """Handle new output of containers."""

    def stopping(self, outcome: RunOutcome) -> None:
        """Handle the outcome of the run as soon as it is known. The containers that still run are then stopped."""

    def page_link(self, url: str) -> None:
        """Handle a new link to the run's web page. A browser can open each link only once."""

    def used(self, usage: Usage) -> None:
        """Handle the current usage of the containers."""

    def tick(self) -> None:
        """Handle the passing of time. The method is called in every round, about ten times a second."""
