"""`python -m hack.bench`: the command line of the benchmark.

Repetitions are interleaved, so that a machine that warms up or gets busy does so for all contestants alike. The exit
code is 1 if any run was refused.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import tfoperator
from hack import controlplane, gobuild
from hack.bench.contestants import CONTESTANTS, OURS, Contestant
from hack.bench.loads import LOADS, Load
from hack.bench.report import refused, table, to_json
from hack.bench.run import Result, run


class _Written(msgspec.Struct):
    """What is read of a JSON file that `main` has written."""

    runs: list[Result]


_EVERYBODY = [name for name, one in CONTESTANTS.items() if not one.on_request]


def schedule(
    loads: Sequence[Load], contestants: Sequence[Contestant], repetitions: int, *, all_of_them: bool
) -> list[tuple[int, Load, Contestant]]:
    """Who runs when: every repetition has every load, and every load all contestants in turn, each time another first.

    Contestants that a rate limit holds back sit out the heavy loads unless `all_of_them` take part.
    """
    order = []
    for repetition in range(repetitions):
        for load in loads:
            able = [one for one in contestants if all_of_them or not (load.heavy and one.rate_limited)]
            if load.reports_seconds:
                able = [one for one in able if one.name == OURS]  # nobody else takes reports for TFJobs
            shift = repetition % max(len(able), 1)
            order += [(repetition, load, one) for one in (*able[shift:], *able[:shift])]
    return order


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.report:
        return _report(options)
    loads = [LOADS[name].scaled(options.scale) for name in options.loads]
    contestants = [CONTESTANTS[name] for name in CONTESTANTS if name in options.contestants]
    chosen = options.contestants != _EVERYBODY
    try:
        peer = [gobuild.PEER_PROGRAM.name] if any(one.name.startswith("peer") for one in contestants) else []
        gobuild.build(*controlplane.PROGRAMS, "kwok", *peer)
    except gobuild.BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    began, results = time.monotonic(), list[Result]()
    runs = schedule(loads, contestants, options.repetitions, all_of_them=chosen)
    circumstances = _circumstances(options)
    for number, (repetition, load, contestant) in enumerate(runs, 1):
        where = f"[{number}/{len(runs)} {time.monotonic() - began:4.0f} s] {contestant.name}, {load.name}"
        _tell(where, load.title)
        result = run(contestant, load, repetition, partial(_tell, where))
        results.append(result)
        _tell(where, _summary(result))
        _write(options.out, results, circumstances)
    return _publish(results, options)


def _report(options: argparse.Namespace) -> int:
    results: list[Result] = []
    for path in options.report:
        try:
            results += msgspec.json.decode(path.read_bytes(), type=_Written).runs
        except (OSError, msgspec.DecodeError) as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            return 1
    _write(options.out, results, {"merged": [str(path) for path in options.report]})
    return _publish(results, options)


def _publish(results: Sequence[Result], options: argparse.Namespace) -> int:
    print(table(results))
    if options.plot:
        from hack.bench.plot import draw

        draw(results, options.out / "bench.png")
    _say(f"written to {options.out}")
    return 1 if refused(results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hack.bench", description="tfoperator beside the Go operator; see docs/benchmark.md."
    )
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS), metavar="LOAD", help=", ".join(LOADS))
    parser.add_argument(
        "--contestants",
        nargs="+",
        choices=CONTESTANTS,
        default=_EVERYBODY,
        metavar="WHO",
        help=f"{', '.join(CONTESTANTS)} (default {', '.join(_EVERYBODY)}); those named here run the heavy loads, too",
    )
    parser.add_argument(
        "--repetitions", type=int, default=3, metavar="N", help="of everything, interleaved (default 3)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="F", help="loads so many times as large (default 1)"
    )
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE", help="only show these runs' JSON, together")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), metavar="DIR", help="for JSON, table and plot")
    parser.add_argument("--no-plot", dest="plot", action="store_false", help="without matplotlib")
    return parser


def _circumstances(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "tfoperator": tfoperator.__version__,
        "kubernetes": gobuild.KUBERNETES_VERSION,
        "scale": options.scale,
        "repetitions": options.repetitions,
    }


def _summary(result: Result) -> str:
    if result.complaints:
        return "REFUSED: " + "; ".join(result.complaints[:5])
    return ", ".join(f"{name} {value:.2f}" for name, value in result.figures.items())


def _write(folder: Path, results: Sequence[Result], circumstances: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(to_json(results, circumstances), indent=1))
    (folder / "bench.md").write_text(table(results))


def _tell(where: str, text: str) -> None:
    _say(f"{where}: {text}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
