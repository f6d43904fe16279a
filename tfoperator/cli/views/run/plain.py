"""`tfoperator run` without a terminal: prints plain lines, without a table of replicas."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TextIO

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.base.controlchars import without_controls
from tfoperator.cli.views.progress import progress_text
from tfoperator.cli.views.run.view import View
from tfoperator.report.text import names_in_short

_BAR_EVERY = 30.0
"""The number of seconds between two lines that show the same progress bar. So a run that lasts a night prints at most
about 1,000 lines for a bar.
"""

_COUNTDOWN_EVERY = 3.0
"""The number of seconds between two lines about a replica that was asked to stop and still runs."""


class PlainView(View):
    """Prints plain lines such as `[worker-0] text`.

    The lines are all log lines of all containers, and a line for each change of a job or a replica. Without `verbose`,
    a line of TensorFlow itself that several replicas print appears once.
    """

    shows_every_line = True

    def __init__(self, stream: TextIO, *, verbose: bool = False) -> None:
        super().__init__(verbose=verbose)
        self._stream = stream
        self._bar_due: dict[tuple[str, str, str], float] = {}
        self._countdown_due: float | None = None

    def progressed(self, name: str, before: TrainingProgress | None, now: TrainingProgress) -> None:
        """Print a line when the progress has reached the next multiple of 10 %.

        The first report (`before` is None) is always printed.
        """
        if before is None or (now.percentage or 0) // 10 != (before.percentage or 0) // 10:
            self.say(name, f"progress: {progress_text(now, datetime.now(UTC))}")

    def tick(self) -> None:
        """Print held-back log lines, the programs' progress bars, and the countdown of replicas that are stopped."""
        super().tick()
        self.show_bars(time.monotonic())
        self.show_countdown(time.monotonic())

    def show_countdown(self, now: float) -> None:
        """Show every few seconds which replicas have not ended, and when they will be killed (times in seconds)."""
        if not self._killed_at:
            self._countdown_due = None
        elif self._countdown_due is None:
            self._countdown_due = now + _COUNTDOWN_EVERY
        elif now >= self._countdown_due:
            self._countdown_due = now + _COUNTDOWN_EVERY
            names = sorted(self._names.get(self._places[uid], uid) for uid in self._killed_at)
            last = max(self._killed_at, key=lambda uid: self._killed_at[uid])
            self.say("tfoperator", f"{names_in_short(names)} still running, will be {self.countdown(last)}")

    def show_bars(self, now: float) -> None:
        """Show each progress bar `_BAR_EVERY` seconds after it appeared, and then again at this interval."""
        for place in [place for place in self._bar_due if place not in self._bars]:
            del self._bar_due[place]
        for place, bar in self._bars.items():
            if now >= self._bar_due.setdefault(place, now + _BAR_EVERY):
                self._bar_due[place] = now + _BAR_EVERY
                self.say(self._names[place[:2]], bar)

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Write the text and flush the stream, because a program or person may read the output at once."""
        self._stream.write("".join([without_controls(f"[{prefix}] {text}") + "\n" for prefix, text in lines]))
        self._stream.flush()


_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_DRAWN = re.compile(r"[\u2500-\u259f#=>.\- ]{6,}")  # box drawing, blocks, and their ASCII substitutes


def in_short(bar: str) -> str:
    """Return the text of a progress bar for a cell of a table: without the drawn bar and the colours."""
    return _DRAWN.sub(" ", _COLOURS.sub("", without_controls(bar))).strip()
