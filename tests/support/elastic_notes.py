"""The notes of an elastic job's workers about their steps, and the number of steps that each of their starts lost."""

import re
from pathlib import Path

EVERY = 5
"""Steps between two checkpoints of the programs."""


class Notes:
    """The lines of a program's workers: `worker T of N begins after step S` and `worker T of N step S`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self, pattern: str) -> list[tuple[int, ...]]:
        text = self._path.read_text() if self._path.exists() else ""
        return [tuple(map(int, groups)) for groups in re.findall(rf"^worker {pattern}$", text, re.MULTILINE)]

    def trains_with(self, workers: int, starts: int) -> bool:
        """Whether worker 0 has begun so many times, and trains with so many workers now."""
        begun = self.lines(r"0 of (\d+) begins after step (\d+)")
        steps = self.lines(r"0 of (\d+) step (\d+)")
        if len(begun) != starts or not steps or begun[-1][0] != workers:
            return False
        return steps[-1][0] == workers and steps[-1][1] > begun[-1][1] + EVERY

    def lost(self) -> list[int]:
        """How many steps of worker 0 each of its starts but the first has lost."""
        lost, last = [], 0
        for kind, step in re.findall(
            r"^worker 0 of \d+ (begins after|step)(?: step)? (\d+)", self._path.read_text(), re.MULTILINE
        ):
            if kind == "begins after":
                lost.append(last - int(step))
            else:
                assert int(step) == (last + 1 if not lost[-1] else int(step)), "each step is made in order"
            last = int(step)
        return lost[1:]
