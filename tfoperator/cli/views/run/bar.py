"""Makes the line with a bar that shows a job's progress in the live view. No I/O."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.base.controlchars import printable
from tfoperator.base.durations import human_duration
from tfoperator.cli.views.progress import COMPLETE, metric_texts, seconds_left

_BAR_WIDTH = 24  # characters


def progress_line(name: str, progress: TrainingProgress, now: datetime) -> Text:
    """Return a line of the live view: name, bar, percent, steps, time left, loss."""
    done = round(_BAR_WIDTH * min(max(progress.percentage or 0, 0), 100) / 100)
    line = Text(f"{name}  ", no_wrap=True, overflow="ellipsis")
    line.append("━" * done, style="green").append("─" * (_BAR_WIDTH - done), style="dim")
    line.append(f" {progress.completion:>4}")
    if progress.step is not None:
        line.append(f"  {progress.step}" + (f"/{progress.total_steps}" if progress.total_steps else ""))
    left = seconds_left(progress, now)
    if left is not None and progress.percentage != COMPLETE:
        line.append(f"  ETA {human_duration(left)}", style="cyan")
    for text in metric_texts(progress):
        line.append(f"  {printable(text)}", style="dim")
    return line
