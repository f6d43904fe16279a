"""Compares an elastic job with a fixed job under random outages in the simulated world, and draws a picture for docs.

    python -m hack.elastic_goodput

The picture (docs/elastic-goodput.svg) shows the work of both jobs over time, for one series of outages. The output
shows the share of the possible work that each job did, for several series. Each run prints the same numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hack.elastic_world import ElasticWorld, elastic_job, outages
from tfoperator.controller import PlanOptions
from tfoperator.operator import Options
from tfoperator.operator.options import planning

_PICTURE = Path(__file__).parents[1] / "docs/elastic-goodput.svg"
_SECONDS = 6 * 3600
_MACHINES, _OUTAGES = 8, 10
_POLICY = {"minReplicas": 1, "maxReplicas": _MACHINES}
_SERIES = 6
_POINTS = 180
_WIDTH, _HEIGHT, _LEFT, _TOP, _BELOW = 720, 300, 56, 40, 46


class Course(msgspec.Struct, frozen=True):
    """The work of a job by time, in steps of one worker, and how often its number of workers changed."""

    work: tuple[float, ...]
    changes: int


def course(policy: dict[str, int] | None, capacity: Callable[[int], int], options: PlanOptions) -> Course:
    """Return the course of a job with this policy in a cluster with this capacity."""
    world = ElasticWorld(job=elastic_job(_MACHINES, policy), options=options, announced=False)
    work = []
    while world.seconds < _SECONDS:
        world.capacity = capacity(world.seconds)
        world.tick()
        if world.seconds % (_SECONDS // _POINTS) == 0:
            work.append(world.steps)
    return Course(tuple(work), len(world.sizes) - 1 if policy is not None else 0)


def picture(possible: Sequence[float], elastic: Course, fixed: Course, capacity: Callable[[int], int]) -> str:
    """Return the picture, as SVG."""
    most, inner = possible[-1], (_WIDTH - _LEFT - 16, _HEIGHT - _TOP - _BELOW)

    def line(values: Sequence[float], highest: float) -> str:
        step = inner[0] / (len(values) - 1)
        points = (
            f"{_LEFT + at * step:.1f},{_TOP + inner[1] * (1 - value / highest):.1f}" for at, value in enumerate(values)
        )
        return " ".join(points)

    machines = [float(capacity(at * _SECONDS // _POINTS)) for at in range(1, _POINTS + 1)]
    texts = [
        f'<text x="{_LEFT}" y="22" font-size="14">Work done with {_MACHINES} machines and {_OUTAGES} outages</text>',
        f'<text x="{_LEFT + inner[0] / 2:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">hours</text>',
    ]
    for hour in range(_SECONDS // 3600 + 1):
        x = _LEFT + inner[0] * hour * 3600 / _SECONDS
        texts.append(f'<text x="{x:.0f}" y="{_HEIGHT - 28}" text-anchor="middle">{hour}</text>')
    for share in (0, 25, 50, 75, 100):
        y = _TOP + inner[1] * (1 - share / 100)
        texts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{share}%</text>')
        texts.append(f'<line x1="{_LEFT}" x2="{_LEFT + inner[0]}" y1="{y:.0f}" y2="{y:.0f}" stroke="#dddddd"/>')
    drawn = (
        ("#bbbbbb", 1, line(machines, _MACHINES), "machines that work, of 8"),
        ("#999999", 1, line(possible, most), "possible work"),
        ("#3949ab", 2, line(elastic.work, most), f"elastic, 1 to 8 workers: {elastic.work[-1] / most:.0%}"),
        ("#c62828", 2, line(fixed.work, most), f"fixed, 8 workers: {fixed.work[-1] / most:.0%}"),
    )
    lines = [
        f'<polyline fill="none" stroke="{color}" stroke-width="{width}" points="{at}"/>'
        for color, width, at, _ in drawn
    ]
    for number, (color, _, _, name) in enumerate(drawn):
        texts.append(f'<text x="{_LEFT + 14}" y="{_TOP + 16 + 16 * number}" fill="{color}">{name}</text>')
    body = "\n".join([*texts, *lines])
    style = 'font-family="sans-serif" font-size="11"'
    back = f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {style}>\n{back}\n{body}\n</svg>\n'
    )


def main() -> None:
    """Run all series, print their shares, and draw the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=_SERIES, help="number of series of outages")
    options = planning.plan_options(Options())
    shares = []
    for seed in range(parser.parse_args().series):
        capacity = outages(seed, _SECONDS, _OUTAGES, _MACHINES)
        step = _SECONDS // _POINTS
        possible = [float(sum(capacity(second) for second in range(at * step))) for at in range(1, _POINTS + 1)]
        elastic, fixed = course(_POLICY, capacity, options), course(None, capacity, options)
        shares.append((elastic.work[-1] / possible[-1], fixed.work[-1] / possible[-1]))
        print(f"series {seed}: elastic {shares[-1][0]:.0%} with {elastic.changes} changes, fixed {shares[-1][1]:.0%}")
        if seed == 0:
            _PICTURE.write_text(picture(possible, elastic, fixed, capacity))
    middle = [sorted(values)[len(values) // 2] for values in zip(*shares, strict=True)]
    print(f"median: elastic {middle[0]:.0%}, fixed {middle[1]:.0%} of the work of all machines that worked")


if __name__ == "__main__":
    main()
