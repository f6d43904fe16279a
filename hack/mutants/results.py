"""The results of changes: kept in a file as they come, and shown as a table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from hack.enumeration.markdown import markdown_table
from hack.mutants.changed import ROOT, Mutant

RECORDED_OTHERWISE = "recorded otherwise:"
"""Begins what is noted of a change that breaks no rule, but makes a play differ from its record."""

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


class Tried(msgspec.Struct, frozen=True):
    """The result of one change, `change` in words.

    `played` is how the plays noticed it, `tested` how unit tests did; empty if they did not, None if they were not
    asked. `source` is a hash of the file that was changed, `reached` whether a play or a test came to the place.
    """

    path: str
    number: int
    line: int
    change: str
    source: str
    reached: bool
    played: str | None = None
    tested: str | None = None

    @property
    def is_noticed(self) -> bool:
        """Whether plays or tests noticed it."""
        return bool(self.played or self.tested)

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.number}): {'' if self.reached else 'not reached: '}{self.change}"


def source_of(path: str) -> str:
    """Return a hash of a file: another version of it has other changes."""
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:16]


class Results:
    """The results so far, in a file that a later run continues. For one thread.

    A result holds as long as the changed file is the same. After a change of the tests or plays, `--again` tries again
    what was not noticed.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self._path = path
        self._tried: dict[tuple[str, int, str], Tried] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                self._note(msgspec.json.decode(line, type=Tried))
            except msgspec.DecodeError:
                continue  # the last line, when the run was interrupted
        path.parent.mkdir(parents=True, exist_ok=True)

    def get(self, mutant: Mutant) -> Tried | None:
        """Return what became of it, if it was tried."""
        return self._tried.get((mutant.path, mutant.number, source_of(mutant.path)))

    def add(self, tried: Tried) -> None:
        """Keep it."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(tried) + b"\n")
        self._note(tried)

    def _note(self, tried: Tried) -> None:
        self._tried[tried.path, tried.number, tried.source] = tried


def equivalents(text: str) -> dict[tuple[str, str], str]:
    """Why changes make no difference, by file and change: `FILE: CHANGE`, and the reason on an indented line."""
    reasons: dict[tuple[str, str], str] = {}
    key = ("", "")
    for line in text.splitlines():
        if line.startswith("  ") and key[0]:
            reasons[key] = f"{reasons.get(key, '')} {line.strip()}".strip()
        elif line and not line.startswith("#"):
            path, _, change = line.partition(": ")
            key = path, change
    return reasons


def left(tried: Sequence[Tried], same: Mapping[tuple[str, str], str]) -> list[Tried]:
    """Return changes that make a difference, but were not noticed. `same` are the changes that make none."""
    return [change for change in tried if not change.is_noticed and (change.path, change.change) not in same]


def table(tried: Sequence[Tried], same: Mapping[tuple[str, str], str]) -> str:
    """Return one row for each file, in Markdown. `same` are the changes that make no difference, with their reasons."""
    rows = []
    for path in [*dict.fromkeys(change.path for change in tried), "together"]:
        changes = [change for change in tried if path in (change.path, "together")]
        played = sum(bool(change.played) for change in changes)
        otherwise = sum((change.played or "").startswith(RECORDED_OTHERWISE) for change in changes)
        tested = sum(not change.played and bool(change.tested) for change in changes)
        survivors = len(left(changes, same))
        alike = len(changes) - played - tested - survivors
        share = f"{100 * survivors / len(changes):.1f} %" if changes else "-"
        unreached = sum(not change.reached for change in changes)
        numbers = (len(changes), unreached, played - otherwise, otherwise, tested, alike, survivors)
        rows.append([path, *map(str, numbers), share])
    titles = ["file", "changes", "not reached", "against a rule", "recorded otherwise", "by unit tests alone"]
    return markdown_table([*titles, "no difference", "left", "share"], rows)
