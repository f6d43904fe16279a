"""Decides the numbers of `tfoperator.servers.progress.paces`: how soon a slow replica is found, and how often wrongly.

    python -m hack.straggler_alarms --hours 10000 --trials 2000

Jobs of two to sixteen replicas train side by side, each with steps of 20 ms to 30 s, of which the operator gets what
`tfoperator.progress` sends: every five seconds the newest step, or each step where they are longer. How long steps take
varies as measured, in part for all at once, and from one five seconds to the next not independently; a replica saves
checkpoints, and all begin with slow steps. In the first part nobody is slow, and each hour of a job with an alarm
counts. In the second, steps take two seconds at most, one replica does its work at half speed from some moment on, and
the seconds until it is named count.
It exits with 1 if more than an hour in a hundred has an alarm, or more than a slow replica in a hundred is found late.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

import numpy as np
from numpy.typing import NDArray

from tfoperator.servers.progress.paces import advanced, slow_replicas
from tfoperator.servers.progress.reports import Pace, ProgressReport

Numbers = NDArray[np.float64]

PERIOD = 5.0
"""Seconds between two reports of a replica."""

SHARED = (
    *(0.660, 0.676, 0.684, 0.700, 0.706, 0.748, 0.808, 0.866, 0.931, 0.951),
    *(1.014, 1.063, 1.103, 1.134, 1.183, 1.251, 1.315, 1.384, 1.499, 1.756, 2.278),
)
OWN = (
    *(0.871, 0.948, 0.960, 0.969, 0.974, 0.980, 0.985, 0.991, 0.997, 0.999),
    *(1.003, 1.006, 1.008, 1.011, 1.016, 1.020, 1.024, 1.030, 1.036, 1.049, 1.143),
)
"""Quantiles, each twentieth, of the seconds per step in five seconds, by the median of the same loop: the part that the
four loops had in common, and the part of each loop alone.

Measured on 26 November 2026 on a virtual machine of two cores: four loops (NumPy, a dense net, 80 ms a step) side by
side for 300 s, while test runs used one of the cores or both.
"""

SHARED_CORRELATION, OWN_CORRELATION = 0.69, 0.1
"""Correlations of the quantiles' logarithms, from one five seconds to the next."""

MOST_SECONDS, MOST_LATE, MOST_FALSE = 60.0, 0.01, 0.01
_TIME = datetime(2026, 1, 1, tzinfo=UTC)  # of no meaning here
_HOUR = int(3600 / PERIOD)
_WRITE_SECONDS = 1.0
"""The writer waits so long at most before it writes the reports of a job."""

_LATENCY = 0.05
_CHECKPOINT_EVERY, _CHECKPOINT_SECONDS = 600.0, 20.0
_WARM_UP_SECONDS = 40.0
_LONG_STEP = 2.0


@dataclass
class Replica:
    """A replica's program: `pace` has the seconds of a step, relative to the usual seconds, every five seconds."""

    name: str
    step_seconds: float
    pace: list[float]
    saves: bool
    slow_from: float = float("inf")
    factor: float = 1.0
    now: float = 0.0
    done: float = 0.0
    next_save: float = field(default=_CHECKPOINT_EVERY)

    def report(self) -> tuple[float, int]:
        """Go on for five seconds; return when the last step was reported that is done then, and its number."""
        relative = self.pace[int(self.now / PERIOD) % len(self.pace)] * (
            self.factor if self.now >= self.slow_from else 1.0
        )
        made = PERIOD / (self.step_seconds * relative)
        self.now, self.done = self.now + PERIOD, self.done + made
        # A long step is reported when it is done, others by turns.
        at = self.now - (self.done % 1.0 / made * PERIOD if made <= 1.0 else 0.0)
        if self.saves and self.now >= self.next_save:
            self.now += _CHECKPOINT_SECONDS
            self.next_save += _CHECKPOINT_EVERY
        return at, int(self.done)


class Job:
    """Replicas that train side by side, and what the operator makes of their reports."""

    def __init__(
        self, rng: np.random.Generator, turns: int, *, step_seconds: float, apart: bool, slow: float | None = None
    ) -> None:
        """The jitter is for `turns` reports of each; the last replica is twice as slow from `slow` (seconds) on."""
        paces = jitter(rng, int(rng.choice([2, 3, 4, 4, 4, 8, 16])), turns, apart=apart)
        saves = rng.random() < 0.5
        self.latency = iter((rng.random(paces.size) * _LATENCY).tolist())
        self.replicas = [
            Replica(f"worker-{index}", step_seconds, own.tolist(), saves=saves and index == 0)
            for index, own in enumerate(paces)
        ]
        if slow is not None:
            self.replicas[-1].slow_from, self.replicas[-1].factor = slow, 2.0
        # All begin with a report; then compilation and caches take time, of each replica about the same.
        self.reports = {replica.name: reported(replica.name, 0, None, replica.now) for replica in self.replicas}
        for replica in self.replicas:
            replica.now += _WARM_UP_SECONDS + float(rng.random()) * PERIOD
        self.now = _WARM_UP_SECONDS + PERIOD
        self.slow: frozenset[str] = frozenset()

    def turn(self) -> float:
        """Take the reports of the next five seconds; return when those are over."""
        self.now += PERIOD
        for replica in self.replicas:
            if replica.now + PERIOD > self.now:
                continue  # it saves
            at, step = replica.report()
            pace = self.reports[replica.name].pace
            self.reports[replica.name] = reported(replica.name, step, pace, at + next(self.latency))
        self.slow = frozenset(name for name, factor in slow_replicas(self.reports, self.slow).items() if factor)
        return self.now


def reported(name: str, step: int, before: Pace | None, at: float) -> ProgressReport:
    """Return the report of a step as the operator keeps it."""
    pace = advanced(before, ProgressReport(name, _TIME, step=step), at)
    return ProgressReport(name, _TIME, step=step, pace=pace)


def jitter(rng: np.random.Generator, replicas: int, turns: int, *, apart: bool) -> Numbers:
    """Return relative seconds per step by replica and turn; `apart`, nothing is common to them."""
    shared = _drawn(rng, replicas if apart else 1, turns, SHARED, SHARED_CORRELATION)
    return shared * _drawn(rng, replicas, turns, OWN, OWN_CORRELATION)


def _drawn(rng: np.random.Generator, rows: int, turns: int, quantiles: Sequence[float], correlation: float) -> Numbers:
    noise = rng.standard_normal((rows, turns))
    for turn in range(1, turns):
        noise[:, turn] = correlation * noise[:, turn - 1] + np.sqrt(1 - correlation**2) * noise[:, turn]
    # The normal distribution's function, to 1e-3 or better: quantiles are no more exact.
    share = 1 / (1 + np.exp(-1.5976 * noise - 0.070566 * noise**3))
    return np.interp(share, np.linspace(0, 1, len(quantiles)), quantiles)


def false_alarms(rng: np.random.Generator, hours: int, *, apart: bool = False) -> tuple[int, int]:
    """Return in how many hours of jobs a replica was named although none is slow, and of how many."""
    wrong = past = 0
    while past < hours:
        step_seconds = _step_seconds(rng)
        job, alarmed = Job(rng, 5 * _HOUR, step_seconds=step_seconds, apart=apart), set()
        for _ in range(5 * _HOUR):
            now = job.turn()
            if job.slow:
                alarmed.add(min(int(now // 3600), 4))
        wrong, past = wrong + len(alarmed), past + 5
    return wrong, past


def seconds_to_find(rng: np.random.Generator, trials: int, *, apart: bool = False) -> Numbers:
    """Return for each trial after how many seconds the replica at half speed was named."""
    delays = []
    for _ in range(trials):
        began = 300.0 + float(rng.random()) * PERIOD
        job = Job(rng, 400, step_seconds=min(_step_seconds(rng), _LONG_STEP), apart=apart, slow=began)
        for _turn in count():
            now = job.turn()
            if now > began + PERIOD and job.replicas[-1].name in job.slow:
                break
        delays.append(now + _WRITE_SECONDS - began)
    return np.array(delays)


def _step_seconds(rng: np.random.Generator) -> float:
    return float(np.exp(rng.uniform(np.log(0.02), np.log(30.0))))


def main(arguments: list[str] | None = None) -> int:
    """Print both figures; return 1 if one is too high."""
    parser = argparse.ArgumentParser(description="How soon slow replicas are found, and how often wrongly.")
    parser.add_argument("--hours", type=int, default=10_000, help="hours of jobs without a slow replica")
    parser.add_argument("--trials", type=int, default=2_000, help="jobs of which a replica gets slow")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--apart", action="store_true", help="as if each replica had such a busy machine of its own")
    options = parser.parse_args(arguments)
    rng, began = np.random.default_rng(options.seed), time.monotonic()
    delays = seconds_to_find(rng, options.trials, apart=options.apart)
    late = int((delays > MOST_SECONDS).sum())
    print(
        f"found after {np.median(delays):.0f} s (median), {np.quantile(delays, 0.99):.0f} s (99 of 100), "
        f"{delays.max():.0f} s (last); {late} of {len(delays)} after more than {MOST_SECONDS:.0f} s"
    )
    wrong, hours = false_alarms(rng, options.hours, apart=options.apart)
    print(f"{wrong} of {hours} hours with a false alarm ({100 * wrong / hours:.2f} %)")
    print(f"{time.monotonic() - began:.0f} s")
    return int(late > MOST_LATE * len(delays) or wrong > MOST_FALSE * hours)


if __name__ == "__main__":
    sys.exit(main())
