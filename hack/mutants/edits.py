"""The possible changes of a program, one place at a time. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

_OTHERS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Lt: (ast.GtE, ast.LtE), ast.LtE: (ast.Gt, ast.Lt), ast.Gt: (ast.LtE, ast.GtE),
    ast.GtE: (ast.Lt, ast.Gt),
}  # fmt: skip
"""The opposite of each comparison, and what differs from it at the boundary alone."""

_NOT_RUN = ("annotation", "returns", "decorator_list")
"""Members of a tree that describe what something is, as the keywords of a class do."""


class Edit(NamedTuple):
    """A change of one expression or statement of a tree; `make` carries it out, in the tree."""

    node: ast.AST
    make: Callable[[], object]


def edits(tree: ast.Module) -> Iterator[Edit]:
    """Yield every change that can be made. Texts, types and decorators stay: they decide nothing."""
    for node in _code(tree):
        if not isinstance(node, ast.Module | ast.ClassDef):
            yield from _removals(node)
        yield from (Edit(node, change) for change in _changes(node))


def mutate(source: str, number: int) -> tuple[ast.Module, str]:
    """Return the program with the change of this number, and the change in words. Raises IndexError."""
    tree = ast.parse(source)
    edit = list(edits(tree))[number]
    before = ast.unparse(edit.node)
    edit.make()
    after = ast.unparse(edit.node)
    change = f"{_shown(before)} becomes {_shown(after)}" if before != after else f"{_shown(before)} is left out"
    return ast.fix_missing_locations(tree), f"{change}, in `{source.splitlines()[lines(edit.node)[0] - 1].strip()}`"


def lines(node: ast.AST) -> range:
    """Return the numbers of its lines, from 1."""
    first, last = (node.target, node.iter) if isinstance(node, ast.comprehension) else (node, node)
    return range(getattr(first, "lineno", 1), (getattr(last, "end_lineno", None) or 1) + 1)


def _shown(text: str) -> str:
    first, _, more = text.partition("\n")
    return f"`{first}{' ...' if more else ''}`"


def _code(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    left_alone = (*_NOT_RUN, "keywords") if isinstance(node, ast.ClassDef) else _NOT_RUN
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            decides = not isinstance(child, ast.JoinedStr) and name not in left_alone and not _is_for_types(child)
            if isinstance(child, ast.AST) and decides:
                yield from _code(child)


def _is_for_types(node: object) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _removals(node: ast.AST) -> Iterator[Edit]:
    blocks: list[Any] = [getattr(node, name, ()) for name in ("body", "orelse")]
    for block in (block for block in blocks if isinstance(block, list)):
        for at, statement in enumerate(block):
            is_call = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant)
            if is_call or isinstance(statement, ast.AugAssign | ast.Raise | ast.Continue | ast.Break):
                yield Edit(statement, partial(block.__setitem__, at, ast.Pass()))


def _changes(node: ast.AST) -> Iterator[Callable[[], object]]:
    yield from _of_operators(node)
    yield from _of_others(node)


def _of_operators(node: ast.AST) -> Iterator[Callable[[], object]]:
    match node:
        case ast.Compare(ops=[op, *rest]):
            yield from (partial(setattr, node, "ops", [other(), *rest]) for other in _OTHERS[type(op)])
        case ast.BoolOp(op=ast.And()):
            yield partial(setattr, node, "op", ast.Or())
        case ast.BoolOp():
            yield partial(setattr, node, "op", ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield partial(setattr, node, "operand", ast.UnaryOp(ast.Not(), operand))
        case ast.BinOp(op=ast.Add()):
            yield partial(setattr, node, "op", ast.Sub())
        case ast.BinOp(op=ast.Sub()):
            yield partial(setattr, node, "op", ast.Add())


def _of_others(node: ast.AST) -> Iterator[Callable[[], object]]:
    match node:
        case ast.Constant(value=bool(value)):
            yield partial(setattr, node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield partial(setattr, node, "value", value + 1)
        case ast.Return(value=ast.expr() as returned) if ast.unparse(returned) != "None":
            yield partial(setattr, node, "value", ast.Constant(None))
        case ast.IfExp(test=test):
            yield partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.If(test=test):
            yield partial(setattr, node, "test", ast.BoolOp(ast.And(), [test, ast.Constant(False)]))
            yield partial(setattr, node, "test", ast.BoolOp(ast.Or(), [test, ast.Constant(True)]))
        case ast.comprehension(ifs=[_, *_]):
            yield partial(setattr, node, "ifs", [])
        case ast.Call(keywords=keywords):
            for at, keyword in enumerate(keywords):
                if keyword.arg:
                    yield partial(setattr, node, "keywords", [*keywords[:at], *keywords[at + 1 :]])
