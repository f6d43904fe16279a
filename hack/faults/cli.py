"""The command line: one seed again, or many seeds in several processes at a time."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hack import controlplane, gobuild

_POLL = 0.2
_ENDED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Play plans; return 1 if one of them was violated, 130 after a signal to end."""
    parser = argparse.ArgumentParser(prog="python -m hack.faults", description="Plays seeded fault plans.")
    parser.add_argument("--server", choices=["embedded", "real"], default="embedded")
    parser.add_argument("--seed", type=int, default=1, help="the (first) plan's seed")
    parser.add_argument("--count", type=int, default=1, help="number of plans, with consecutive seeds")
    parser.add_argument("--jobs", type=int, default=1, help="number of plans at the same time, each on its own server")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds in which a plan has to come to rest")
    parser.add_argument(
        "--plain", action="store_true", help="no TensorBoards, gangs, sidecars and stalls: what older seeds meant"
    )
    parser.add_argument("--stripe", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="a JSON object per plan")
    arguments = parser.parse_args(argv)
    if arguments.server == "real":
        try:
            gobuild.build(*controlplane.PROGRAMS)
        except gobuild.BuildError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    summary = _Summary(len(seeds), as_json=arguments.json)
    with _orderly_end() as end:
        if arguments.jobs > 1:
            _fan_out(arguments, summary, end)
        else:
            for result in _play_all(seeds[:: arguments.stripe], arguments, end):
                summary.add(result)
    code = summary.finish(arguments.server)
    return _ENDED if end.is_set() else code


@contextmanager
def _orderly_end() -> Iterator[threading.Event]:
    """Tells when SIGTERM or SIGINT came, so that servers and operators are stopped on the way out. In the main thread.

    It raises nothing: an exception out of nowhere would be lost in some places, and leave processes behind in others.
    """
    end = threading.Event()
    before = {number: signal.signal(number, lambda *_: end.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _play_all(seeds: Iterable[int], arguments: argparse.Namespace, end: threading.Event) -> Iterable[dict[str, Any]]:
    # Imported late: the parent of many processes needs none of it.
    from hack.faults.injection import servers
    from hack.faults.phases.environment import Stopped
    from hack.faults.runner import play

    with getattr(servers, arguments.server)() as server:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="tfoperator-plan-") as folder:
                try:
                    result = play(
                        seed,
                        server,
                        Path(folder),
                        patience=arguments.patience,
                        plain=arguments.plain,
                        end=end,
                    )
                except (Stopped, EOFError, ConnectionError):
                    # A signal to the whole process group ends the fork server as well, and what waits for it fails.
                    if end.is_set():
                        return
                    raise
            yield {
                "seed": result.seed,
                "seconds": result.seconds,
                "violations": [str(violation) for violation in result.violations],
                "history": result.history,
                "faults": result.faults,
            }


def _fan_out(arguments: argparse.Namespace, summary: _Summary, end: threading.Event) -> None:
    """Stripes of the seeds, each in a process of its own; a process that dies is reported as a violation."""
    running: list[subprocess.Popen[str]] = []

    def stripe(number: int) -> None:
        command = [
            sys.executable, "-m", "hack.faults", "--json", f"--server={arguments.server}",
            f"--seed={arguments.seed + number}", f"--count={arguments.count - number}",
            f"--stripe={arguments.jobs}", f"--patience={arguments.patience}",
            *(["--plain"] if arguments.plain else []),
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
        ) as process:
            running.append(process)
            if end.is_set():
                process.terminate()
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    summary.add(json.loads(line))
        if process.returncode not in (0, 1) and not end.is_set():
            summary.broken(f"the process for seeds {arguments.seed + number}, +{arguments.jobs} ... died")

    threads = [threading.Thread(target=stripe, args=(number,)) for number in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if end.wait(_POLL):
            for process in list(running):
                process.terminate()
            for thread in threads:
                thread.join()


class _Summary:
    """Prints as plans end. Thread-safe."""

    def __init__(self, total: int, *, as_json: bool) -> None:
        self._total = total
        self._as_json = as_json
        self._lock = threading.Lock()  # guards everything below
        self._done = 0
        self._failed: list[int] = []
        self._kinds: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._broken: list[str] = []
        self._began = time.monotonic()

    def add(self, result: dict[str, Any]) -> None:
        """A plan has ended."""
        with self._lock:
            self._done += 1
            self._faults.update(result["faults"])
            if self._as_json:
                print(json.dumps(result), flush=True)
                self._failed += [result["seed"]] if result["violations"] else []
                return
            if result["violations"]:
                self._failed.append(result["seed"])
                self._kinds.update(violation.partition(":")[0] for violation in result["violations"])
                print(f"\nseed {result['seed']} after {result['seconds']:.1f} s:")
                print("\n".join(f"  {line}" for line in (*result["violations"], "", *result["history"])), flush=True)
            elif self._total <= 20 or self._done % 10 == 0:
                spent = time.monotonic() - self._began
                print(
                    f"{self._done} of {self._total} plans after {spent:.0f} s, {len(self._failed)} violated "
                    f"(seed {result['seed']}: {result['seconds']:.1f} s)",
                    flush=True,
                )

    def broken(self, what: str) -> None:
        """Plans could not be played."""
        with self._lock:
            self._broken.append(what)

    def finish(self, server: str) -> int:
        """Say how it went; returns the exit code."""
        with self._lock:
            failed, kinds = sorted(self._failed), self._kinds
            if not self._as_json:
                faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self._faults.items()))
                print(f"faults: {faults or 'none'}")
                for message in self._broken:
                    print(message)
                print(
                    f"{self._done} plans on the {server} server in {time.monotonic() - self._began:.0f} s: "
                    f"{kinds['lost']} lost, {kinds['doubled']} doubled, {kinds['stuck']} stuck, {kinds['wrong']} wrong"
                )
                if failed:
                    print(f"failing seeds: {', '.join(map(str, failed))}")
                    print(f"replay one: python -m hack.faults --server {server} --seed {failed[0]}")
            return 1 if failed or self._broken else 0
