"""`python -m hack.enumeration.recorded`: shows differences between the operator's actions and the recorded actions."""

from __future__ import annotations

import argparse
import difflib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from hack.enumeration.recorded.plays import plays
from hack.enumeration.recorded.records import RECORDS, RuleBroken, differing, records_of

ROOT = Path(__file__).parents[3]

_COMMIT_OF = ("git", "rev-parse", "--quiet", "--verify")
_PROGRAM = (sys.executable, "-m", "hack.enumeration.recorded")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare all plays with their records, and show the differences; return 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m hack.enumeration.recorded", description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the commit with which journals that differ are compared")
    parser.add_argument("--accept", action="store_true", help="record the current actions of the operator")
    parser.add_argument("--show", metavar="PLAY", nargs="+", help="print the journals of these plays as JSON, and end")
    arguments = parser.parse_args(argv)
    command = [*_COMMIT_OF, f"{arguments.since}^{{commit}}"]
    if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode:
        parser.error(f"--since: there is no commit {arguments.since}")
    logging.disable(logging.CRITICAL)
    if arguments.show:
        print(msgspec.json.encode(_journals(arguments.show)).decode())
        return 0
    try:
        now = records_of(plays())
    except RuleBroken as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    names = differing(RECORDS.read(), now)
    if arguments.accept:
        RECORDS.write(now)
        print(f"{len(now)} plays are recorded, and {len(names)} of them differ from the earlier records")
        return 0
    if names:
        _show(names, arguments.since, print)
    print(f"{len(names)} of {len(now)} plays differ from their records")
    return 1 if names else 0


def _journals(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the journals of plays; a play that is not there is left out."""
    chosen = [play for play in plays() if play.name in names]
    return {
        play.name: [line for step in play.steps() for line in (*step.journal, step.wrong) if line] for play in chosen
    }


def _show(names: Sequence[str], commit: str, say: Callable[[str], None]) -> None:
    now = _journals(names)
    with _checked_out(commit) as folder:
        env = {**os.environ, "PYTHONPATH": folder}
        completed = subprocess.run(
            [*_PROGRAM, "--show", *names], cwd=folder, env=env, stdout=subprocess.PIPE, check=True
        )
    before = msgspec.json.decode(completed.stdout, type=dict[str, list[str]])
    for name in names:
        say(f"== {name}")
        for line in difflib.unified_diff(before.get(name, []), now.get(name, []), commit, "now", n=0, lineterm=""):
            say(line)


@contextmanager
def _checked_out(commit: str) -> Iterator[str]:
    """Check a commit out into a folder of its own, for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as parent:
        folder = str(Path(parent, "then"))
        subprocess.run(["git", "worktree", "add", "-q", "--detach", folder, commit], cwd=ROOT, check=True)
        try:
            yield folder
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
