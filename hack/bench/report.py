"""From runs to a table: medians over the repetitions, and how they compare with the tuned peer and with the floor.

Pure. A run with complaints gives no figure; its cell shows it, and the report as a whole counts as failed.
"""

from __future__ import annotations

import statistics
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hack.bench.contestants import CONTESTANTS, FLOOR, FLOOR_PER_JOB, OURS, OURS_PER_JOB, TUNED_PEER
from hack.bench.run import EXEMPT, Result

_RARE_CALL = 0.05
"""Calls per job below which a verb is left out of the table: shared lists, and repetitions of what failed."""
REFUSED = "refused"


@dataclass(frozen=True)
class Figure:
    """The title and unit of a figure; for every figure, smaller is better."""

    title: str
    unit: str


FIGURES = {
    "running_s": Figure("all Running", "s"),
    "created_s": Figure("all pods created", "s"),
    "reported_s": Figure("all statuses complete", "s"),
    "p50_s": Figure("created to Running, p50", "s"),
    "p99_s": Figure("created to Running, p99", "s"),
    "done_s": Figure("all done", "s"),
    "calls": Figure("API calls per job", ""),
    "cpu_ms": Figure("CPU per job", "ms"),
    "api_cpu_ms": Figure("API server's CPU per job", "ms"),
    "rss_mib": Figure("RSS at the end", "MiB"),
    "peak_mib": Figure("RSS at its peak", "MiB"),
    "idle_calls": Figure("calls while idle", ""),
    "idle_records": Figure("of them lastReconcileTime", ""),
    "idle_cpu_s": Figure("CPU while idle", "s"),
    "idle_peak_mib": Figure("RSS at its peak, after idling", "MiB"),
    "start_ready_s": Figure("restarted: ready", "s"),
    "start_quiet_s": Figure("restarted: quiet", "s"),
    "start_cpu_s": Figure("restarted: CPU", "s"),
    "start_peak_mib": Figure("restarted: RSS at its peak", "MiB"),
    "start_calls": Figure("restarted: calls", ""),
    "healthy_s": Figure("last kill to healthy", "s"),
    "heal_p50_s": Figure("kill to Running, p50", "s"),
    "heal_p99_s": Figure("kill to Running, p99", "s"),
    "heal_max_s": Figure("kill to Running, longest", "s"),
    "churn_calls": Figure("calls per killed pod", ""),
    "churn_cpu_ms": Figure("CPU per killed pod", "ms"),
    "no_reports_writes": Figure("status writes without reports", "/s"),
    "reports_writes": Figure("status writes with reports", "/s"),
    "reports_last_s": Figure("last reports all written after", "s"),
    "no_reports_cpu": Figure("CPU without reports", "% of a core"),
    "reports_cpu": Figure("CPU with reports", "% of a core"),
    "no_reports_api_cpu": Figure("API server's CPU without reports", "% of a core"),
    "reports_api_cpu": Figure("API server's CPU with reports", "% of a core"),
    "no_reports_rss_mib": Figure("RSS without reports", "MiB"),
    "reports_rss_mib": Figure("RSS with reports", "MiB"),
}
"""In the order of the table's rows."""


@dataclass(frozen=True)
class Target:
    """A figure of `of` is to be at most `ratio` times the figure of `against`, in the same load."""

    load: str
    figure: str
    ratio: float
    against: str = TUNED_PEER
    of: str = OURS


_SHAPES = ("ones", "medium", "fives", "hundreds")
"""Jobs of 1, 3, 5 and 100 replicas."""
TARGETS = (
    Target("finish", "cpu_ms", 0.5),
    Target("large", "cpu_ms", 0.3),
    Target("finish", "calls", 0.55),
    Target("medium", "rss_mib", 0.75),
    Target("large", "rss_mib", 0.5),
    Target("medium", "running_s", 1.2, FLOOR),
    Target("medium", "running_s", 1.0),
    Target("large", "running_s", 1.2, FLOOR),
    Target("large", "running_s", 0.6),
    Target("finish", "done_s", 1.0),
    Target("wide", "running_s", 0.7),
    Target("large", "start_quiet_s", 0.8),
    Target("large", "start_cpu_s", 0.8),
    Target("large", "start_peak_mib", 0.8),
    Target("medium", "api_cpu_ms", 0.8),
    Target("finish", "api_cpu_ms", 0.8),
    Target("churn", "heal_p50_s", 0.5),
    Target("churn", "heal_p99_s", 0.5),
    *(Target(load, "cpu_ms", 0.4) for load in _SHAPES),
    *(Target(load, "cpu_ms", 0.4, of=OURS_PER_JOB) for load in _SHAPES),
    *(Target(f"{load}{end}", "running_s", 1.25, FLOOR) for load in _SHAPES for end in ("", EXEMPT)),
    *(
        Target(f"{load}{end}", "running_s", 1.25, FLOOR_PER_JOB, OURS_PER_JOB)
        for load in _SHAPES
        for end in ("", EXEMPT)
    ),
    Target("fives", "calls", 0.5, of=OURS_PER_JOB),
    Target("fives", "running_s", 0.8, of=OURS_PER_JOB),
    Target("fives", "api_cpu_ms", 0.8, of=OURS_PER_JOB),
    Target("widest", "calls", 0.52, of=OURS_PER_JOB),
    Target("widest", "running_s", 0.6, of=OURS_PER_JOB),
    Target("finish", "calls", 0.55, of=OURS_PER_JOB),
    Target("medium", "idle_cpu_s", 2.0),
)
GROWTH_TARGETS = {"large": 1.2, "huge": 1.3}
"""Our CPU per job in that load, relative to `small`."""

Medians = dict[tuple[str, str, str], float]
"""By load, contestant and figure."""


def refused(results: Iterable[Result]) -> list[Result]:
    """The runs whose outcome was not what it should be."""
    return [result for result in results if result.complaints]


def medians(results: Sequence[Result]) -> Medians:
    """The median of every figure over the repetitions.

    A load and contestant with a refused run has no figure at all: the other repetitions may have been lucky.
    """
    bad = {(result.load, result.contestant) for result in refused(results)}
    samples: dict[tuple[str, str, str], list[float]] = {}
    for result in results:
        if (result.load, result.contestant) not in bad:
            for figure, value in result.figures.items():
                samples.setdefault((result.load, result.contestant, figure), []).append(value)
    return {key: statistics.median(values) for key, values in samples.items()}


def growth(found: Medians, load: str = "large") -> float | None:
    """Our CPU per job with many jobs over that with few; None without both."""
    many, few = found.get((load, OURS, "cpu_ms")), found.get(("small", OURS, "cpu_ms"))
    return many / few if many is not None and few else None


def targets(found: Medians) -> list[tuple[Target, float | None]]:
    """Each target with the ratio that was measured; None where a figure is missing."""

    def ratio(target: Target) -> float | None:
        ours = found.get((target.load, target.of, target.figure))
        theirs = found.get((target.load, target.against, target.figure))
        return ours / theirs if ours is not None and theirs else None

    return [(target, ratio(target)) for target in TARGETS]


def table(results: Sequence[Result]) -> str:
    """Markdown, one section per load; a cell is `value (times the tuned peer; times the floor)`."""
    all_medians, bad = medians(results), {(result.load, result.contestant) for result in refused(results)}
    lines: list[str] = []
    for load in dict.fromkeys(result.load for result in results):
        of_load = [result for result in results if result.load == load]
        columns = [name for name in CONTESTANTS if any(result.contestant == name for result in of_load)]
        lines += ["", f"**{load}**: {of_load[0].title}", "", _row(["", *(CONTESTANTS[name].title for name in columns)])]
        lines.append(_row(["---"] * (len(columns) + 1)))
        for name, figure in FIGURES.items():
            cells = [REFUSED if (load, column) in bad else _cell(all_medians, load, column, name) for column in columns]
            if any(cell not in ("", REFUSED) for cell in cells):
                lines.append(_row([f"{figure.title}{f', {figure.unit}' if figure.unit else ''}", *cells]))
        if of_load[0].jobs > 1:
            lines += _calls(of_load, columns, bad)
    lines += _shown_targets(all_medians)
    return "\n".join(lines).strip() + "\n"


def _calls(of_load: Sequence[Result], columns: Sequence[str], bad: Container[tuple[str, str]]) -> list[str]:
    """Return the calls per job: a row per verb and resource that is more than a rarity."""
    rows = []
    for call in sorted({call for result in of_load for call in result.calls}):
        cells = []
        for name in columns:
            runs = [run for run in of_load if run.contestant == name and (run.load, name) not in bad]
            # A run without such a call is one with none of them.
            value = statistics.median(run.calls.get(call, 0) / run.jobs for run in runs) if runs else 0.0
            cells.append(number(value) if value >= _RARE_CALL else "")
        if any(cells):
            rows.append(_row([f"calls per job: {call}", *cells]))
    return rows


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(all_medians: Medians, load: str, contestant: str, figure: str) -> str:
    value = all_medians.get((load, contestant, figure))
    if value is None:
        return ""
    ratios = []
    floor = FLOOR_PER_JOB if CONTESTANTS[contestant].per_job else FLOOR
    compared = [(TUNED_PEER, "peer"), (floor, "floor")]
    for against, sign in compared:
        other = all_medians.get((load, against, figure))
        if contestant not in (against, FLOOR, FLOOR_PER_JOB) and other:
            ratios.append(f"{value / other:.2f}× {sign}")
    return number(value) + (f" ({', '.join(ratios)})" if ratios else "")


def number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _shown_targets(all_medians: Medians) -> list[str]:
    rows = []
    for target, ratio in targets(all_medians):
        if ratio is not None:
            suffix = f" of {CONTESTANTS[target.of].title}" if target.of != OURS else ""
            subject = (
                f"{target.load}: {FIGURES[target.figure].title}{suffix}, times {CONTESTANTS[target.against].title}"
            )
            rows.append(_row([subject, f"{target.ratio:g}", f"{ratio:.2f}", _verdict(ratio, target.ratio)]))
    for load, limit in GROWTH_TARGETS.items():
        grown = growth(all_medians, load)
        if grown is not None:
            subject = f"CPU per job, {load} over small"
            rows.append(_row([subject, f"{limit:g}", f"{grown:.2f}", _verdict(grown, limit)]))
    if not rows:
        return []
    return ["", "**To reach**", "", _row(["", "at most", "measured", ""]), _row(["---"] * 4), *rows]


def _verdict(ratio: float, limit: float) -> str:
    return "reached" if ratio <= limit else "missed"


def to_json(results: Sequence[Result], circumstances: dict[str, Any]) -> dict[str, Any]:
    """Return everything: the circumstances, the medians that count, and each run; refused runs have complaints."""
    return {
        "circumstances": circumstances,
        "medians": [
            {"load": load, "contestant": contestant, "figure": figure, "value": value}
            for (load, contestant, figure), value in medians(results).items()
        ],
        "runs": [result.to_json() for result in results],
    }
