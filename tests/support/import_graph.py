"""Reads from the source which module of the package imports which other module, and finds circles among them."""

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

Graph = Mapping[str, Set[str]]


def import_graph(folder: Path) -> Graph:
    """Return the modules of a package, each with the modules of the package that it imports.

    An import counts wherever it stands: at the top, in a function, or for type checkers only. `from package import
    name` imports the module `package.name` if that module exists, else `package`.
    """
    files = {_name(path, folder): path for path in folder.rglob("*.py")}
    return {name: frozenset(_imported(path, files.keys())) - {name} for name, path in files.items()}


def _name(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, modules: Set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inner & modules
            if inner - modules and node.module in modules:
                yield node.module


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that each lead to all others of their group, each in alphabetical order."""
    left = _in_or_between_circles(graph)
    reached = {module: _reached(module, left) for module in left}
    groups = {
        frozenset({module, *(other for other in reached[module] if module in reached[other])})
        for module in left
        if module in reached[module]
    }
    return sorted(sorted(group) for group in groups)


def _in_or_between_circles(graph: Graph) -> Graph:
    """Leave out, again and again, each module that imports no other module left, or that none of them imports."""
    left = dict(graph)
    while True:
        imported = {module for imports in left.values() for module in imports}
        kept = {module: imports & left.keys() for module, imports in left.items() if module in imported}
        kept = {module: imports for module, imports in kept.items() if imports}
        if len(kept) == len(left):
            return kept
        left = kept


def _reached(module: str, graph: Graph) -> Set[str]:
    """Return the modules that this module imports, directly or through other modules."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached
