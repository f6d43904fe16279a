"""The table as a picture: for each load and figure, every contestant's bar. Needs matplotlib (the `bench` extra)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from hack.bench.contestants import CONTESTANTS
from hack.bench.report import FIGURES, Medians, medians, number
from hack.bench.run import Result

SHOWN = ("running_s", "done_s", "calls", "cpu_ms", "api_cpu_ms", "rss_mib", "start_quiet_s", "healthy_s")
COLUMNS = 3
WIDE = 30
"""From this ratio of the largest to the smallest on, bars are on a logarithmic scale: a job of 1000 hides one of 3."""
COLOURS = dict(
    zip(
        CONTESTANTS,
        ("#7a8794", "#b9c2ca", "#1f77b4", "#d8c27a", "#74b3e0", "#ece0b8", "#9467bd", "#5b5b5b"),
        strict=True,
    )
)


def draw(results: Sequence[Result], path: Path) -> None:
    """Write a PNG with one panel per figure and one group of bars per load. Refused runs have no bars."""
    mpl.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    all_medians = medians(results)
    figures = [name for name in SHOWN if any(key[2] == name for key in all_medians)]
    if not figures:
        return
    rows = -(-len(figures) // COLUMNS)
    picture, panels = pyplot.subplots(rows, COLUMNS, figsize=(5 * COLUMNS, 3.4 * rows), squeeze=False)
    for panel, name in zip(panels.flat, figures, strict=False):
        _panel(panel, all_medians, name)
    for panel in panels.flat[len(figures) :]:
        panel.axis("off")
    names = [name for name in CONTESTANTS if any(key[1] == name for key in all_medians)]
    handles = [Patch(color=COLOURS[name]) for name in names]
    picture.legend(handles, [CONTESTANTS[name].title for name in names], loc="lower center", ncols=len(names))
    picture.suptitle("Smaller is better")
    picture.tight_layout(rect=(0, 0.05, 1, 0.99))
    picture.savefig(path, dpi=110)
    pyplot.close(picture)


def _panel(panel: Any, all_medians: Medians, name: str) -> None:
    loads = list(dict.fromkeys(key[0] for key in all_medians if key[2] == name))
    contestants = [candidate for candidate in CONTESTANTS if any(key[1:] == (candidate, name) for key in all_medians)]
    width = 0.8 / len(contestants)
    for number_, contestant in enumerate(contestants):
        places = [position - 0.4 + width * (number_ + 0.5) for position in range(len(loads))]
        heights = [all_medians.get((load, contestant, name), 0.0) for load in loads]
        bars = panel.bar(places, heights, width, color=COLOURS[contestant])
        panel.bar_label(bars, [number(height) if height else "" for height in heights], fontsize=7)
    shown = [value for key, value in all_medians.items() if key[2] == name and value]
    if shown and max(shown) > WIDE * min(shown):
        panel.set_yscale("log")
    figure = FIGURES[name]
    panel.set_title(f"{figure.title}{f' ({figure.unit})' if figure.unit else ''}", fontsize=10)
    panel.set_xticks(range(len(loads)), loads)
    panel.spines[["top", "right"]].set_visible(False)
