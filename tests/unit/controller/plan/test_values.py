"""The room of the plan has values and functions of values: once it is made, a value does not change."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from tfoperator.controller import plan as room

FOLDER = Path(room.__path__[0])
MODULES = [importlib.import_module(info.name) for info in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")]
CHANGES = {
    "add",
    "append",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "sort",
    "update",
}
"""Methods by which lists, sets and dicts are changed."""


def classes(module: ModuleType) -> Iterator[type]:
    return (member for _, member in inspect.getmembers(module, inspect.isclass) if member.__module__ == module.__name__)


def name_of(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__qualname__}"


def is_frozen(kind: type) -> bool:
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen
    if dataclasses.is_dataclass(kind):
        return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return issubclass(kind, Enum | tuple)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_class_is_frozen(module: ModuleType) -> None:
    mutable = [name_of(kind) for kind in classes(module) if not is_frozen(kind)]
    assert mutable == []


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def root(node: ast.expr) -> str:
    """The name at the beginning of `name.member[key]...`, if that is what it is."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def changes(function: ast.FunctionDef) -> Iterator[str]:
    """Yield each statement of a function that changes an argument, or a member of an argument."""
    arguments = function.args
    # `self` is one of them: no method changes its object.
    names = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    bound = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = [
                part for target in node.targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])
            ]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            targets = [node.func]
        for target in targets:
            if isinstance(target, ast.Attribute | ast.Subscript) and root(target) in names - bound:
                yield f"{function.name}: {ast.unparse(node)}"


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_function_changes_its_argument(path: Path) -> None:
    assert [change for function in functions(ast.parse(path.read_text())) for change in changes(function)] == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(group): group.counts[1] = 2",
        "def f(group): group.replicas.append(1)",
        "def f(group): group.size += 1",
        "def f(group): del group.counts[1]",
        "def f(*, group): group.first, other = 1, 2",
    ],
)
def test_a_change_of_an_argument_is_noticed(text: str) -> None:
    assert [change for function in functions(ast.parse(text)) for change in changes(function)]
