"""Makes every change in every state of a job's life, and counts what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hack.enumeration.fields.changes import V1, Edit, Json, Subject, changes
from hack.enumeration.fields.lives import Changed, Life, Outcome, change
from hack.enumeration.markdown import markdown_table
from hack.enumeration.processes import quiet_processes

GOOD = (Outcome.NAMED, Outcome.SAME, Outcome.SAID, Outcome.DESIGNED)


class Tried(NamedTuple):
    """One change that was made."""

    field: str
    how: Edit
    life: Life
    changed: Changed

    def __str__(self) -> str:
        details = "; ".join((*self.changed.differs[:5], *self.changed.said[-1:]))
        return f"{self.life}: {self.field}, {self.how}: {self.changed.outcome}: {details}"


def change_all(lives: Sequence[Life], *, jobs: int, say: Callable[[str], None], subject: Subject = V1) -> list[Tried]:
    """Make every change in each of these states."""
    todo = [(field, how, spec, life, subject) for life in lives for field, how, spec in changes(subject)]
    done: list[Tried] = []
    with quiet_processes(jobs) as pool:
        for tried in pool.map(_try, todo, chunksize=5):
            done.append(tried)
            if not len(done) % 50:
                say(f"{len(done)} of {len(todo)} changes")
    return done


def _try(arguments: tuple[str, Edit, Json, Life, Subject]) -> Tried:
    field, how, spec, life, subject = arguments
    return Tried(field, how, life, change(field, spec, life, subject))


def table(done: Sequence[Tried]) -> str:
    """One row for each state of a job's life, in Markdown: changes by outcome, and those that could not be undone."""
    outcomes = list(Outcome)
    rows = []
    for life in dict.fromkeys(tried.life for tried in done):
        those = [tried.changed for tried in done if tried.life is life]
        counts = Counter(changed.outcome for changed in those)
        left = sum(bool(changed.left) for changed in those)
        rows.append([life, str(len(those)), *(str(counts[outcome]) for outcome in outcomes), str(left)])
    return markdown_table(["state", "changes", *outcomes, "not undone by changing it back"], rows)
