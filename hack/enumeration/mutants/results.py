"""What became of changes: kept in a file as it comes, and told as a table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hack.enumeration.markdown import markdown_table
from hack.enumeration.mutants.changed import ROOT, Mutant

RECORDED_OTHERWISE = "recorded otherwise:"
"""Begins what is said of a change that breaks no rule, but makes a play differ from its record."""

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


class Tried(msgspec.Struct, frozen=True):
    """What became of one change. `why` is how the plays noticed it, `units` how unit tests did; empty if they did not.

    `units` is None if they were not asked, `source` a hash of the file that was changed, `reached` whether a play came
    to the place.
    """

    path: str
    number: int
    line: int
    told: str
    source: str
    reached: bool
    why: str
    units: str | None = None

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.number}): {'' if self.reached else 'not reached: '}{self.told}"


def source_of(path: str) -> str:
    """What tells one version of a file from the others."""
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:16]


class Results:
    """What has been tried, in a file that a later run continues. For one thread.

    It holds as long as the changed file is the same. Who has changed what is played asks again for what was not
    noticed.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self._path = path
        self._tried: dict[tuple[str, int, str], Tried] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                self._note(msgspec.json.decode(line, type=Tried))
            except msgspec.DecodeError:
                continue  # the last one, when the run was interrupted
        path.parent.mkdir(parents=True, exist_ok=True)

    def get(self, mutant: Mutant) -> Tried | None:
        """What became of it, if it was tried."""
        return self._tried.get((mutant.path, mutant.number, source_of(mutant.path)))

    def add(self, tried: Tried) -> None:
        """Keep it."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(tried) + b"\n")
        self._note(tried)

    def _note(self, one: Tried) -> None:
        self._tried[one.path, one.number, one.source] = one


def equivalents(text: str) -> dict[tuple[str, str], str]:
    """Why changes make no difference, by file and change: `FILE: CHANGE`, and the reason on an indented line."""
    found: dict[tuple[str, str], str] = {}
    key = ("", "")
    for line in text.splitlines():
        if line.startswith("  ") and key[0]:
            found[key] = f"{found.get(key, '')} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            path, _, told = line.partition(": ")
            key = path, told
    return found


def table(tried: Sequence[Tried], same: dict[tuple[str, str], str]) -> str:
    """One row for each file, in Markdown. `same` are the changes that make no difference, each with its reason."""
    rows = []
    for path in [*dict.fromkeys(one.path for one in tried), "together"]:
        those = [one for one in tried if path in (one.path, "together")]
        played = sum(bool(one.why) for one in those)
        otherwise = sum(one.why.startswith(RECORDED_OTHERWISE) for one in those)
        tested = sum(not one.why and bool(one.units) for one in those)
        alike = sum(not one.why and not one.units and (one.path, one.told) in same for one in those)
        left = len(those) - played - tested - alike
        share = f"{100 * left / len(those):.1f} %"
        unreached = sum(not one.reached for one in those)
        rows.append(
            [path, *map(str, (len(those), unreached, played - otherwise, otherwise, tested, alike, left)), share]
        )
    titles = ["file", "changes", "not reached", "against a rule", "recorded otherwise", "by unit tests alone"]
    return markdown_table([*titles, "no difference", "left", "share"], rows)
