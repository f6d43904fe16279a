"""The hashes of recorded journals, in a file of lines, `HASH NAME OF THE PLAY`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hack.enumeration.recorded.journal import digest
from hack.enumeration.recorded.plays import Play

Look = Callable[[dict[str, Any]], None]


class RuleBroken(Exception):
    """A play came to something that must not be, `wrong`: there is nothing to record."""

    def __init__(self, play: Play, wrong: str) -> None:
        self.wrong = wrong
        super().__init__(f"{play.name}: {wrong}")


class Records:
    """A file of records. For one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, str]:
        """Return each play's hash, by its name. Raises OSError."""
        lines = self._path.read_text().splitlines()
        return {name: record for record, _, name in (line.partition(" ") for line in lines)}

    def write(self, records: Mapping[str, str]) -> None:
        """Replace what is recorded. Raises OSError."""
        self._path.write_text("".join(f"{record} {name}\n" for name, record in records.items()))


RECORDS = Records(Path(__file__).with_name("recorded.txt"))


def record_of(play: Play, look: Look = lambda _: None) -> str:
    """Play it, and return the hash of its journal; `look` gets each version of each job. Raises RuleBroken."""
    lines: list[str] = []
    for step in play.steps():
        if step.wrong:
            raise RuleBroken(play, step.wrong)
        for job in step.jobs:
            look(job)
        lines += step.journal
    return digest(lines)


def records_of(plays: Iterable[Play], look: Look = lambda _: None) -> dict[str, str]:
    """Play these; return the hash of each one's journal, by its name. Raises RuleBroken."""
    return {play.name: record_of(play, look) for play in plays}


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the plays that are recorded otherwise, or in one of the two alone."""
    return [name for name in {**now, **before} if before.get(name) != now.get(name)]
