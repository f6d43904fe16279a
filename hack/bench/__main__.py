"""`python -m hack.bench`: the command line of the benchmark.

The repetitions of all contestants alternate, so that a change of the machine's speed affects all contestants. The exit
code is 1 if a run was refused.
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
from hack.bench.loads import LOADS, QUICK_LOADS, Load
from hack.bench.report import refused, table, to_json
from hack.bench.run import EXEMPT, Result, run

_EXEMPT = {"no": (False,), "too": (False, True), "only": (True,)}
"""Whether contestants are exempt from priority and fairness, in which order, by the value of the option."""


class _Written(msgspec.Struct):
    """The part of a JSON file written by `main` that is read again."""

    runs: list[Result]


_DEFAULT_LOADS = [name for name, load in LOADS.items() if not load.on_request]
_EVERYBODY = [name for name, contestant in CONTESTANTS.items() if not contestant.on_request]
_QUICK_CONTESTANTS = [name for name in _EVERYBODY if not CONTESTANTS[name].rate_limited]
_LOADS_HELP = (
    f"{', '.join(_DEFAULT_LOADS)}; and only if named: {', '.join(x for x in LOADS if x not in _DEFAULT_LOADS)}"
)


def schedule(
    loads: Sequence[Load], contestants: Sequence[Contestant], repetitions: int, *, all_of_them: bool
) -> list[tuple[int, Load, Contestant]]:
    """Return the order of runs: each repetition has all loads, each load all contestants, each time another first.

    Contestants that a rate limit holds back sit out the heavy loads unless `all_of_them` take part.
    """
    order = []
    for repetition in range(repetitions):
        for load in loads:
            able = [
                contestant for contestant in contestants if all_of_them or not (load.heavy and contestant.rate_limited)
            ]
            if load.reports_seconds:  # only our operator takes reports for TFJobs
                able = [contestant for contestant in able if contestant.name == OURS]
            shift = repetition % max(len(able), 1)
            order += [(repetition, load, contestant) for contestant in (*able[shift:], *able[:shift])]
    return order


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments ask for; return the exit code."""
    options = _parse(arguments)
    if options.report:
        return _report(options)
    loads = QUICK_LOADS if options.quick else [LOADS[name].scaled(options.scale) for name in options.loads]
    contestants = [CONTESTANTS[name] for name in CONTESTANTS if name in options.contestants]
    chosen = options.contestants != _EVERYBODY
    try:
        peer = (
            [gobuild.PEER_PROGRAM.name] if any(candidate.name.startswith("peer") for candidate in contestants) else []
        )
        gobuild.build(*controlplane.PROGRAMS, "kwok", *peer)
    except gobuild.BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    began, results = time.monotonic(), list[Result]()
    turns = schedule(loads, contestants, options.repetitions, all_of_them=chosen)
    runs = [(*turn, exempt) for turn in turns for exempt in _EXEMPT[options.exempt]]
    circumstances = _circumstances(options)
    profiles = options.out / "profiles" if options.profile_api_server else None
    for number, (repetition, load, contestant, exempt) in enumerate(runs, 1):
        name = f"{load.name}{EXEMPT if exempt else ''}"
        where = f"[{number}/{len(runs)} {time.monotonic() - began:4.0f} s] {contestant.name}, {name}"
        _report_progress(where, load.title)
        result = run(contestant, load, repetition, partial(_report_progress, where), exempt=exempt, profiles=profiles)
        results.append(result)
        _report_progress(where, _summary(result))
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
    _log(f"written to {options.out}")
    return 1 if refused(results) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hack.bench", description="tfoperator beside the Go operator; see docs/benchmark.md."
    )
    parser.add_argument("--loads", nargs="+", choices=LOADS, metavar="LOAD", help=_LOADS_HELP)
    parser.add_argument(
        "--contestants",
        nargs="+",
        choices=CONTESTANTS,
        metavar="WHO",
        help=f"{', '.join(CONTESTANTS)} (default {', '.join(_EVERYBODY)}); those named here run the heavy loads, too",
    )
    parser.add_argument(
        "--repetitions", type=int, metavar="N", help="of everything, interleaved (default 3, with --quick 1)"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--scale", type=float, default=1.0, metavar="F", help="loads so many times as large (default 1)")
    size.add_argument(
        "--quick",
        action="store_true",
        help="rough ratios within five minutes on two cores, of small loads, once: "
        f"{', '.join(load.name for load in QUICK_LOADS)}; contestants {', '.join(_QUICK_CONTESTANTS)}",
    )
    parser.add_argument(
        "--exempt",
        nargs="?",
        choices=_EXEMPT,
        default="no",
        const="too",
        help="also measure everybody exempt from priority and fairness (`only`: nobody under them)",
    )
    parser.add_argument(
        "--profile-api-server",
        action="store_true",
        help="its CPU profile of each run goes to DIR/profiles, for go tool pprof; it costs some of what is measured",
    )
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE", help="only show these runs' JSON, together")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), metavar="DIR", help="for JSON, table and plot")
    parser.add_argument("--no-plot", dest="plot", action="store_false", help="without matplotlib")
    return parser


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.quick and options.loads:
        parser.error("--quick has loads of its own: leave out --loads, or say --scale instead of --quick")
    options.loads = options.loads or _DEFAULT_LOADS
    options.contestants = options.contestants or (_QUICK_CONTESTANTS if options.quick else _EVERYBODY)
    options.repetitions = options.repetitions or (1 if options.quick else 3)
    return options


def _circumstances(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "python": platform.python_version(),
        "tfoperator": tfoperator.__version__,
        "kubernetes": gobuild.kubernetes_version(),
        "scale": "quick" if options.quick else options.scale,
        "repetitions": options.repetitions,
        "api_server_profiled": options.profile_api_server,
    }


def _summary(result: Result) -> str:
    if result.complaints:
        return "REFUSED: " + "; ".join(result.complaints[:5])
    return ", ".join(f"{name} {value:.2f}" for name, value in result.figures.items())


def _write(folder: Path, results: Sequence[Result], circumstances: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(to_json(results, circumstances), indent=1))
    (folder / "bench.md").write_text(table(results))


def _report_progress(where: str, text: str) -> None:
    _log(f"{where}: {text}")


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
