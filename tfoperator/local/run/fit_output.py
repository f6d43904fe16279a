"""Finds the progress of a training loop in the progress bars that it prints, for programs that do not report progress.

The code does no I/O. Keras prints `Epoch 2/5`, and then lines such as `75/300 ━━━━ 8s 37ms/step - loss: 1.9180`. With
`verbose=2` it prints one line per epoch: `300/300 - 9s - 30ms/step - loss: 1.9180`. Keras 2 prints lines such as
`75/300 [=====>....] - ETA: 8s - loss: 1.9180`. A `fit` of a single epoch prints no `Epoch`. `evaluate` and `predict`
also print no `Epoch`. So after the end of a `fit`, bars are ignored until the next `Epoch`, because they may belong to
`evaluate` or `predict`.

A tqdm bar may count anything. It is used only if its description or its unit names steps of an epoch (`Epoch 2/5:
25%|██▌ | 75/300 [00:02<00:08, 27.0it/s, loss=1.9]`), epochs, or steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from tfoperator.api.v1.parts.progress import Metric
from tfoperator.servers.progress.reports import MAX_TEXT, ProgressReport

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_EPOCH = re.compile(r"Epoch (\d{1,9})/(\d{1,9})\s*")
_STEPS = re.compile(r"\s*(\d{1,15})/(?:(\d{1,15}) (?:━+|-|\[[=>.]+\])|Unknown) ")
_METRIC = re.compile(rf" - ([^\s:]{{1,{MAX_TEXT}}}): ([-+.0-9e]{{1,20}}|nan|-?inf)(?=\s|$)")
_TQDM = re.compile(
    r"(?:(?P<what>[^|%]{1,100}): +)?\s*\d{1,3}%\|[^|]*\| (?P<done>\d{1,15})/(?P<total>\d{1,15}) "
    r"\[[\d:]+<[\d:?]+, +(?:[\d.]+s/(?P<slow>\w+)|[\d.?]+(?P<unit>[A-Za-z]+)/s)(?P<metrics>, .*)?\]\s*"
)
_TQDM_METRIC = re.compile(rf", ([^\s=,]{{1,{MAX_TEXT}}})=([-+.0-9e]{{1,20}}|nan|-?inf)(?=,|$)")
_EPOCH_OF = re.compile(r"\bepoch\b[^\d/]{0,3}(\d{1,9}) ?(?:/|of) ?(\d{1,9})", re.IGNORECASE)
_EPOCHS = re.compile(r"(?:training )?epochs?", re.IGNORECASE)
_TRAINING_STEPS = re.compile(r"(?:train(?:ing)? )?(?:global )?steps?", re.IGNORECASE)
_NO_TRAINING = re.compile(r"val|eval|test|predict", re.IGNORECASE)
_LONGEST = 2000
"""The maximum number of characters of a line that is read. Keras' lines are shorter."""


class _Bar(msgspec.Struct, frozen=True):
    """The state of a bar.

    `done` and `total` count the steps of an epoch, or the epochs if `of_epochs` is true. `total` is 0 if it is unknown.
    """

    done: int
    total: int
    metrics: tuple[Metric, ...] = ()
    of_epochs: bool = False


class FitOutput:
    """Finds the progress in the output of one program. Not thread-safe."""

    def __init__(self) -> None:
        self._epoch = self._epochs = 1
        self._first: tuple[float, int] | None = None  # time and step of the first line of this fit

    def read(self, lines: Iterable[str], monotonic: float, now: datetime) -> ProgressReport | None:
        """Return the progress after these lines. The field `replica` of the report is "".

        Return None if the lines contain no progress. `now` becomes the time of the report. `monotonic` is the time of
        these lines by a monotonic clock, in seconds, to estimate the remaining time.
        """
        newest = None
        for line in lines:
            text = _COLOURS.sub("", line[:_LONGEST]).lstrip("\b")
            if match := _EPOCH.fullmatch(text):
                self._begin_epoch(int(match[1]), int(match[2]))
            elif (bar := _keras_bar(text) or self._tqdm_bar(text)) and (self._epoch or bar.of_epochs):
                newest = (self._epoch, bar)
        return None if newest is None else self._report(*newest, monotonic, now)

    def _begin_epoch(self, epoch: int, epochs: int) -> None:
        if epoch <= self._epoch or epochs != self._epochs:
            self._first = None  # another fit
        self._epoch, self._epochs = (epoch, epochs) if 0 < epoch <= epochs else (0, 0)

    def _tqdm_bar(self, text: str) -> _Bar | None:
        """Return the state of a tqdm bar if it clearly counts steps or epochs. Record the epoch that the bar names."""
        match = _TQDM.fullmatch(text) if "%|" in text else None
        what = (match["what"] or "") if match is not None else ""
        if match is None or _NO_TRAINING.search(what):
            return None
        unit = (match["unit"] or match["slow"]).lower()
        metrics = tuple(Metric(*metric.groups()) for metric in _TQDM_METRIC.finditer(match["metrics"] or ""))
        bar = _Bar(int(match["done"]), int(match["total"]), metrics)
        if named := _EPOCH_OF.search(what):
            place = int(named[1]), int(named[2])
            if place != (self._epoch, self._epochs):
                self._begin_epoch(*place)
            return bar
        if unit in ("epoch", "epochs") or _EPOCHS.fullmatch(what):
            return msgspec.structs.replace(bar, of_epochs=True)
        return bar if unit in ("step", "steps") or _TRAINING_STEPS.fullmatch(what) else None

    def _report(self, epoch: int, bar: _Bar, monotonic: float, now: datetime) -> ProgressReport:
        metrics = (Metric("epoch", str(bar.done if bar.of_epochs else epoch)), *bar.metrics)
        report = ProgressReport(replica="", time=now.replace(microsecond=0), metrics=metrics)
        if bar.of_epochs:
            has_total = bar.total > 0 and bar.done <= bar.total
            return msgspec.structs.replace(report, percentage=100 * bar.done // bar.total if has_total else None)
        if not 0 < bar.done <= bar.total:
            return msgspec.structs.replace(report, percentage=100 * (epoch - 1) // self._epochs)
        step, total = (epoch - 1) * bar.total + bar.done, self._epochs * bar.total
        self._first = self._first or (monotonic, step)
        elapsed, done = monotonic - self._first[0], step - self._first[1]
        remaining = int(elapsed / done * (total - step)) if done > 0 else None
        if step == total:
            self._epoch = 0  # the fit has ended
        return msgspec.structs.replace(
            report, estimated_remaining_seconds=remaining, step=step, total_steps=total, percentage=100 * step // total
        )


def _keras_bar(text: str) -> _Bar | None:
    match = _STEPS.match(text)
    if match is None:
        return None
    metrics = tuple(Metric(*metric.groups()) for metric in _METRIC.finditer(text))
    return _Bar(int(match[1]), int(match[2] or 0), metrics)
