"""The progress of Keras' `fit`, from the lines that it prints: for programs that do not report. No I/O.

Keras prints `Epoch 2/5`, and then lines such as `75/300 ━━━━ 8s 37ms/step - loss: 1.9180` (with `verbose=2` one per
epoch, `300/300 - 9s - 30ms/step - loss: 1.9180`). A `fit` of one epoch prints no `Epoch`, nor do `evaluate` and
`predict`: of what has none, only the first pass of a program counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from tfoperator.api.v1.status import Metric
from tfoperator.servers.progress.reports import MAX_TEXT, ProgressReport

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_EPOCH = re.compile(r"Epoch (\d{1,9})/(\d{1,9})\s*")
_STEPS = re.compile(r"\s*(\d{1,15})/(?:(\d{1,15}) (?:━+|-)|Unknown) ")
_METRIC = re.compile(rf" - ([^\s:]{{1,{MAX_TEXT}}}): ([-+.0-9e]{{1,20}}|nan|inf)(?=\s|$)")
_LONGEST = 2000
"""Characters of a line that is read: Keras' lines are shorter."""


class FitOutput:
    """The output of one program. Not thread-safe."""

    def __init__(self) -> None:
        self._epoch = self._epochs = 1
        self._first: tuple[float, int] | None = None  # time and step of the first line of this fit

    def read(self, lines: Iterable[str], monotonic: float, now: datetime) -> ProgressReport | None:
        """Return the progress after these lines, of no named replica; None if they say nothing new.

        `monotonic` is in seconds.
        """
        newest = None
        for line in lines:
            text = _COLOURS.sub("", line[:_LONGEST])
            if match := _EPOCH.fullmatch(text):
                self._begin_epoch(int(match[1]), int(match[2]))
            elif self._epoch and _STEPS.match(text):
                newest = (self._epoch, text)
        return None if newest is None else self._report(*newest, monotonic, now)

    def _begin_epoch(self, epoch: int, epochs: int) -> None:
        if epoch <= self._epoch or epochs != self._epochs:
            self._first = None  # another fit
        self._epoch, self._epochs = (epoch, epochs) if 0 < epoch <= epochs else (0, 0)

    def _report(self, epoch: int, line: str, monotonic: float, now: datetime) -> ProgressReport:
        match = _STEPS.match(line)
        assert match is not None
        in_epoch, steps = int(match[1]), int(match[2] or 0)
        metrics = (Metric("epoch", str(epoch)), *(Metric(*found.groups()) for found in _METRIC.finditer(line)))
        report = ProgressReport(replica="", time=now.replace(microsecond=0), metrics=metrics)
        if not 0 < in_epoch <= steps:
            return msgspec.structs.replace(report, percentage=100 * (epoch - 1) // self._epochs)
        step, total = (epoch - 1) * steps + in_epoch, self._epochs * steps
        self._first = self._first or (monotonic, step)
        elapsed, done = monotonic - self._first[0], step - self._first[1]
        remaining = int(elapsed / done * (total - step)) if done > 0 else None
        if step == total:
            self._epoch = 0  # the fit has ended
        return msgspec.structs.replace(
            report, estimated_remaining_seconds=remaining, step=step, total_steps=total, percentage=100 * step // total
        )
