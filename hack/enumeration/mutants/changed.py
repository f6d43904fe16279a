"""The changes of a program, and the import of a module with one of them. No file is written."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from hack.enumeration.mutants.edits import edits, lines, mutate

ROOT = Path(__file__).parents[3]

_LISTED = re.compile(r"(\S+\.py)(?::\d+)? \(?(\d+)\)?")


class Mutant(NamedTuple):
    """One change of a file: the number of its edit, and the lines that it is on."""

    path: str
    number: int
    lines: range

    @property
    def told(self) -> str:
        """What it is, for people."""
        return mutate((ROOT / self.path).read_text(), self.number)[1]

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]} ({self.number})"


def all_mutants(paths: Sequence[str]) -> list[Mutant]:
    """Every change of these files and folders."""
    files = [file for path in paths for file in sorted((ROOT / path).rglob("*.py")) or [ROOT / path]]
    trees = {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in files}
    return [Mutant(path, at, lines(one.node)) for path, tree in trees.items() for at, one in enumerate(edits(tree))]


def listed(text: str, every: Iterable[Mutant]) -> list[Mutant]:
    """Those of a list, which has `FILE NUMBER` or `FILE:LINE (NUMBER): ...` on each line. Raises KeyError."""
    known = {one[:2]: one for one in every}
    return [known[found[1], int(found[2])] for line in text.splitlines() if (found := _LISTED.match(line))]


def import_changed(path: str, number: int) -> None:
    """Whoever imports the module of this file from now on gets it with the change."""
    tree, _ = mutate((ROOT / path).read_text(), number)
    name = path.removesuffix(".py").replace("/", ".")
    assert name not in sys.modules, f"{name} is imported already"

    class Finder(PathFinder):
        """Finds the changed module."""

        @classmethod
        def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
            spec = super().find_spec(fullname, path, target) if fullname == name else None
            if spec is not None and spec.origin:
                spec.loader = _Changed(fullname, spec.origin, compile(tree, spec.origin, "exec"))
            return spec

    sys.meta_path.insert(0, Finder)


class _Changed(SourceFileLoader):
    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self._code
