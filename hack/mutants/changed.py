"""The changes of a program, and the import of a module with one of them. Files never change."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from hack.mutants.edits import edits, lines, mutate

ROOT = Path(__file__).parents[2]

Function = ast.FunctionDef | ast.AsyncFunctionDef

_LISTED = re.compile(r"(\S+\.py)(?::\d+)? \(?(\d+)\)?")


class Mutant(NamedTuple):
    """One change of a file: the number of its edit, and the lines that it is on."""

    path: str
    number: int
    lines: range

    @property
    def change(self) -> str:
        """The change in words."""
        return mutate((ROOT / self.path).read_text(), self.number)[1]

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]} ({self.number})"


def all_mutants(paths: Iterable[str]) -> list[Mutant]:
    """Return every change of these files and folders. Raises OSError where there is no such file."""
    trees = {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in files_of(paths)}
    return [Mutant(path, at, lines(edit.node)) for path, tree in trees.items() for at, edit in enumerate(edits(tree))]


def listed(text: str, every: Iterable[Mutant]) -> list[Mutant]:
    """Return the mutants of a list, which has `FILE NUMBER` or `FILE:LINE (NUMBER): ...` on each line.

    Raises KeyError for a change that is not among `every`.
    """
    by_number = {mutant[:2]: mutant for mutant in every}
    return [by_number[found[1], int(found[2])] for line in text.splitlines() if (found := _LISTED.match(line))]


def import_changed(path: str, number: int) -> None:
    """Give the module of this file with the change to all that import it from now on, in this process."""
    tree, _ = mutate((ROOT / path).read_text(), number)
    name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
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


def place_of(mutant: Mutant) -> str:
    """Return the function to which a test must come to notice the change, as `FILE:LINE` of its first line.

    The result is "" for what runs when the module is imported, and for functions whose results are kept (`cache`):
    only the first test that needs such a result calls them.
    """
    around = functions_around(mutant)
    if not around or is_cached(around[-1]):
        return ""
    return f"{mutant.path}:{first_line(around[-1])}"


def functions_around(mutant: Mutant) -> list[Function]:
    """Return the functions in whose bodies the change is, the outermost first."""
    every = _functions(mutant.path)
    around = [node for node in every if node.body[0].lineno <= mutant.lines[0] <= (node.end_lineno or 0)]
    return sorted(around, key=lambda node: node.lineno)


def is_cached(function: Function) -> bool:
    """Return whether a decorator keeps the results of the function, as `functools.cache` does."""
    return any("cache" in ast.unparse(decorator) for decorator in function.decorator_list)


def first_line(function: Function) -> int:
    """Return the first line of a function, as its code object has it."""
    return min(node.lineno for node in (function, *function.decorator_list))


def function_at(path: str, line: int) -> int:
    """Return the first line of the innermost function of a file around a line; 0 if there is none."""
    around = [first_line(node) for node in _functions(path) if first_line(node) <= line <= (node.end_lineno or 0)]
    return max(around, default=0)


@cache
def _functions(path: str) -> list[Function]:
    tree = ast.parse((ROOT / path).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def files_of(paths: Iterable[str]) -> list[Path]:
    """Return the Python files of these files and folders, from the repository's root."""
    return [file for path in paths for file in sorted((ROOT / path).rglob("*.py")) or [ROOT / path]]


def hash_of(files: Iterable[Path]) -> str:
    """Return a hash of the names and contents of these files of the repository. Raises OSError."""
    hashed = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        hashed.update(f"{file.relative_to(ROOT)} {len(content)} ".encode() + content)
    return hashed.hexdigest()[:16]
