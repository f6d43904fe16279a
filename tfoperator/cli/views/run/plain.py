"""`tfoperator run` in a pipe: one plain line per fact."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TextIO

from tfoperator.api.v1.status import TrainingProgress
from tfoperator.base.controlchars import without_controls
from tfoperator.cli.views.progress import progress_text
from tfoperator.cli.views.run.view import View

_BAR_EVERY = 30.0
"""Seconds between two states of a progress bar: enough to see that it moves, and no flood after a night."""


class PlainView(View):
    """One plain line per fact: `[worker-0] text`. Every line of a container is shown."""

    shows_every_line = True

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._bar_due: dict[tuple[str, str, str], float] = {}

    def progressed(self, name: str, before: TrainingProgress | None, now: TrainingProgress) -> None:
        """One line for every tenth of the training."""
        if before is None or (now.percentage or 0) // 10 != (before.percentage or 0) // 10:
            self.say(name, f"progress: {progress_text(now, datetime.now(UTC))}")

    def tick(self) -> None:
        """Say now and then where progress bars are; their last state is a line like any other."""
        self.show_bars(time.monotonic())

    def show_bars(self, now: float) -> None:
        """Show each bar that there is at this time (seconds) and that has not been shown for a while."""
        for place in [place for place in self._bar_due if place not in self._bars]:
            del self._bar_due[place]
        for place, bar in self._bars.items():
            if now >= self._bar_due.setdefault(place, now + _BAR_EVERY):
                self._bar_due[place] = now + _BAR_EVERY
                self.say(self._names.get(place[:2], place[1]), bar)

    def show(self, lines: Iterable[tuple[str, str]]) -> None:
        """Write and flush: somebody may be reading along."""
        self._stream.write("".join([harmless(f"[{prefix}] {text}") + "\n" for prefix, text in lines]))
        self._stream.flush()


def harmless(line: str) -> str:
    """A line of a container as it may be shown. Most have no control characters, and cost next to nothing."""
    return line if line.isprintable() else without_controls(line)


_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_DRAWN = re.compile(r"[\u2500-\u259f#=>.\- ]{6,}")  # box drawing, blocks, and what does for them in ASCII


def in_short(bar: str) -> str:
    """The bar without what is only drawn and coloured, for a cell of a table: its numbers and words are what counts."""
    return _DRAWN.sub(" ", _COLOURS.sub("", without_controls(bar))).strip()
