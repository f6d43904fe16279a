"""Changes functions that are already imported: each function keeps its identity and gets the changed code.

That is many times as fast as a new import of the plan and of all modules that import it.
"""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType

from hack.mutants.changed import ROOT, Mutant, first_line, functions_around, is_cached
from hack.mutants.edits import mutate


class Functions:
    """The functions and methods of some files, as this process has imported them."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Find the functions of these files and folders, which are named from the repository's root."""
        roots = tuple(f"{ROOT / path}" for path in paths)
        self._by_place: dict[tuple[str, int], list[FunctionType]] = defaultdict(list)
        for value in gc.get_objects():
            if isinstance(value, FunctionType) and value.__code__.co_filename.startswith(roots):
                self._by_place[_place(value.__code__)].append(value)

    def change(self, mutant: Mutant) -> None:
        """Give the function around this change its changed code. Raises LookupError if it is not imported."""
        tree, _ = mutate((ROOT / mutant.path).read_text(), mutant.number)
        around = functions_around(mutant)[0]
        wanted = (str(ROOT / mutant.path), first_line(around))
        codes = _codes(compile(tree, wanted[0], "exec"))
        code = next(code for code in codes if _place(code) == wanted and code.co_name == around.name)
        if not self._by_place[wanted]:
            raise LookupError(f"{mutant}: {around.name}() is not imported")
        for function in self._by_place[wanted]:
            function.__code__ = code


def has_own_function(mutant: Mutant) -> bool:
    """Return whether the change is in a function whose code can be replaced after its import.

    A function with kept results (`cache`) may already have been called. A method with `super()` has a closure, and
    Python accepts only code with the same closure.
    """
    around = functions_around(mutant)
    return bool(around) and not any(is_cached(function) for function in around) and not _has_closure(around[0])


def _has_closure(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Name) and node.id in ("super", "__class__") for node in ast.walk(function))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of each function, class and comprehension in a module."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_filename, code.co_firstlineno
