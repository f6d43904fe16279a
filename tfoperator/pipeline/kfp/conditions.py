"""The conditions that Kubeflow Pipelines compiles, a small part of CEL, as values. They are never run as code.

Python's parser reads them, once their signs are its own: `~` binds as CEL's `!` does, and more tightly than `not`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from tfoperator.launcher import ComponentError
from tfoperator.pipeline.values import Value

_FOREIGN = re.compile(r"'[^']*'|&&|\|\||!(?!=)|\b(?:true|false)\b|[#~\\\"]")
_SIGNS = {"&&": " and ", "||": " or ", "!": "~", "true": "True", "false": "False"}
_OPERATIONS = {"And": "&&", "Or": "||", "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}
_MAX_TEXT = 20_000


def read_condition(text: str, inputs: Callable[[str], Any]) -> Any:
    """Return a condition as a value; `inputs` are the parameters that it names. Raises ComponentError."""

    def ours(match: re.Match[str]) -> str:
        found = match[0]
        return repr(found[1:-1]) if found[0] == "'" else _SIGNS.get(found, "?")

    try:
        if len(text) > _MAX_TEXT:
            raise ValueError(f"it has more than {_MAX_TEXT} characters")
        return _value(ast.parse(_FOREIGN.sub(ours, text).strip(), mode="eval").body, inputs)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ComponentError(f"condition {text[:200]!r} can't be read: {error}") from None


def _value(node: ast.AST, inputs: Callable[[str], Any]) -> Any:
    of = partial(_value, inputs=inputs)
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as constant):
            return constant
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.UnaryOp(op=ast.Invert()):
            return Value("!", (of(node.operand),))
        case ast.BoolOp():
            op = _OPERATIONS[type(node.op).__name__]
            return reduce(lambda one, other: Value(op, (one, other)), map(of, node.values))
        case ast.Compare(ops=[sign], comparators=[right]) if op := _OPERATIONS.get(type(sign).__name__, ""):
            return Value(op, (of(node.left), of(right)))
        case ast.Call(func=ast.Name(id="int" | "double" as name), args=[one], keywords=[]):
            return Value(name, (of(one),))
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name(id="inputs"), attr="parameter_values"),
            slice=ast.Constant(value=str() as key),
        ):
            return inputs(key)
    raise ValueError(f"there is a {type(node).__name__} in it")
