"""Expressions whose results are known only after steps have ended.

A `Value` is an expression that contains outputs of steps, such as `train.outputs.accuracy.value > 0.9`. Parameters,
conditions, loops and inputs can be values. A value has only the operations in this file, so it can't run code or read
attributes of Python objects. The size of a value is limited. The module does no I/O.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher import ComponentError
from tfoperator.launcher.container.templates import rendered_value

_MAX_WEIGHT = 20_000
_MAX_TEXT = 1 << 18
OUTPUT, STATUS, ITEM, COLLECT, RUN = "output", "status", "item", "collect", "run"
NEWEST = "newest"
"""The operation for the newest artifact that an earlier run has made (see `Value`)."""
WORKSPACE = "workspace"
"""An argument of the operation `run` (see `Value`). The result is the path of the folder that all steps share."""


class LeftOut(Exception):
    """A Value can't be evaluated: a step on which it depends was skipped, because the step's condition did not hold.

    The text names the step.
    """


class NotPutOut(LeftOut):
    """A Value can't be evaluated: a step on which it depends has ended without success. The text names the step."""


class NotYet(Exception):
    """A Value can't be evaluated yet: a step on which it depends has not ended."""


def _operation(op: str) -> Callable[[Value, Any], Value]:
    """Return a method `(value, other)` of Value that returns `Value(op, (value, other))`."""
    return lambda value, other: Value(op, (value, other))


class Value(msgspec.Struct, frozen=True):
    """An expression: an operation and its arguments, which are constants and other values.

    The constructor raises ComponentError if the value has too many parts. Operations, with their arguments:

    - `output` (step, output): the output of a step.
    - `status` (steps): how these steps ended.
    - `item` (loop): the item of the current iteration of a loop.
    - `collect` (depth, loop, value): a list with the value of each iteration of `loop`, which is nested in `depth`
      other loops.
    - `run` (fact): a fact of the run, such as its id.
    - `list` (values) and `object` (key, value, key, value ...): a list or a mapping.
    - `first` (values): the first value that does not depend on a skipped or failed step. `all` (values): all such
      values.
    - `artifacts` (source): the artifacts of an input. `at` (source, number): the artifact with this index.
    - `uri` (source, number): the URI of the artifact with this index. `property` (source, number, name): a property of
      this artifact, or None if the property is missing.
    - `positions` (list): the list of the indexes 0, 1, 2 ... of a list.
    - `newest` (type, field, value, field, value ...): the newest artifact of a type that an earlier run of the pipeline
      has made, and that has these values in these fields.
    - `get` (value, key): a member of a list or a mapping. `text` (values): the joined texts.
    - `int`, `double`, `!`, `&&`, `||` and comparisons.
    """

    op: str
    args: tuple[Any, ...] = ()
    weight: int = 1

    def __post_init__(self) -> None:
        weight = 1 + sum(argument.weight if isinstance(argument, Value) else 1 for argument in self.args)
        if weight > _MAX_WEIGHT:
            raise ComponentError(f"a value has more than {_MAX_WEIGHT} parts")
        msgspec.structs.force_setattr(self, "weight", weight)

    def __str__(self) -> str:
        words = list(map(str, self.args))
        return ".".join(words) if self.op == OUTPUT else f"{self.op}({', '.join(words)})"[:200]

    def __bool__(self) -> bool:
        raise TypeError(
            "the value of a step's output is known only after the step has ended, so Python's if can't use it: use "
            "when()"
        )

    __getitem__ = _operation("get")
    __lt__, __le__, __gt__, __ge__ = map(_operation, ("<", "<=", ">", ">="))
    __and__, __or__ = _operation("&&"), _operation("||")

    def __invert__(self) -> Value:
        return Value("!", (self,))

    def equals(self, other: Any) -> Value:
        """Return the expression `self == other`, where `other` is a value or a constant.

        Use this method in place of `==`: the operator `==` compares two `Value` objects, and returns a bool.
        """
        return Value("==", (self, other))


def evaluate(what: Any, lookup: Callable[..., Any]) -> Any:
    """Return the result of a value. A constant is its own result.

    `lookup` returns the result of an operation such as `output`, and may raise LeftOut or NotYet. With `content=False`,
    `lookup` returns artifacts in place of their contents. Raises ComponentError if an operation can't be computed.
    """
    if not isinstance(what, Value):
        return what
    if what.op in (OUTPUT, STATUS, RUN):
        return lookup(what)
    if what.op in ("artifacts", "property", "uri"):
        artifacts = list(flat(evaluate(what.args[0], partial(lookup, content=False))))
        return artifacts if what.op == "artifacts" else _fact_of(what, artifacts)
    if what.op in ("first", "all"):
        return _chosen(what, lookup)
    args = [evaluate(argument, lookup) for argument in what.args]
    try:
        if what.op == NEWEST:
            return lookup(Value(NEWEST, tuple(args)))
        result = _OPERATIONS[what.op](*args)
    except (ArithmeticError, LookupError, TypeError, ValueError, *UNDECODABLE) as error:
        raise ComponentError(f"{what} can't be computed: {type(error).__name__}: {error}") from None
    if isinstance(result, str) and len(result) > _MAX_TEXT:
        raise ComponentError(f"{what} has more than {_MAX_TEXT} characters")
    return result


def _chosen(what: Value, lookup: Callable[..., Any]) -> Any:
    """Return the first of several values that does not depend on a skipped or failed step, or return all such values.

    If there is no such value, the operation `all` gives [], and `first` raises LeftOut, or NotPutOut if a step failed.
    """
    values, missing = [], LeftOut(str(what))
    for argument in what.args:
        try:
            values.append(evaluate(argument, lookup))
        except NotPutOut as error:
            missing = error
        except LeftOut:
            continue
        if values and what.op == "first":
            return values[0]
    if what.op == "first":
        raise missing
    return values


def mapped(what: Any, change: Callable[[Value], Any]) -> Any:
    """Return `what`, in which results of `change` replace the operations `output`, `status`, `item` and `collect`."""
    if not isinstance(what, Value):
        return what
    if what.op in (OUTPUT, STATUS, ITEM, COLLECT):
        return change(what)
    return Value(what.op, tuple([mapped(argument, change) for argument in what.args]))


def flat(found: Any) -> Iterator[Any]:
    """Yield the members of nested lists and tuples, in order. Skip None. Yield any other value itself."""
    if isinstance(found, list | tuple):
        for member in found:
            yield from flat(member)
    elif found is not None:
        yield found


def sources(what: Any) -> Iterator[Any]:
    """Yield the names of the steps on which a value depends. The same name may be yielded several times."""
    if isinstance(what, Value):
        yield from what.args[:1] if what.op == OUTPUT else what.args if what.op == STATUS else ()
        for argument in what.args:
            yield from sources(argument)


def names_fact(what: Any, fact: str) -> bool:
    """Return whether a value contains the operation `run` with this fact, such as WORKSPACE."""
    if not isinstance(what, Value):
        return False
    return (what.op == RUN and what.args == (fact,)) or any(names_fact(argument, fact) for argument in what.args)


def _fact_of(what: Value, artifacts: list[Any]) -> Any:
    """Return the result of the operation `property` or `uri` for these artifacts.

    The result is None if the list of artifacts is empty, or if the property is missing. Raises ComponentError if the
    index is too large.
    """
    number, *names = what.args[1:]
    if not artifacts:
        return None
    if number >= len(artifacts):
        raise ComponentError(f"{what} does not exist: there are only {len(artifacts)} artifacts")
    return artifacts[number].properties.get(names[0]) if names else artifacts[number].uri


def _get(value: Any, key: Any) -> Any:
    if isinstance(value, str):
        value = msgspec.json.decode(value)
    if not isinstance(value, dict | list):
        raise TypeError(f"{type(value).__name__} has no members")
    return value[key]


def _object(*parts: Any) -> dict[str, Any]:
    return {rendered_value(key): value for key, value in zip(parts[::2], parts[1::2], strict=True)}


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "get": _get,
    "at": lambda items, number: list(flat(items))[number],
    "positions": lambda items: list(range(len(items))),
    "list": lambda *parts: list(parts),
    "object": _object,
    "text": lambda *parts: "".join(map(rendered_value, parts)),
    "int": int,
    "double": float,
    "!": operator.not_,
    "&&": lambda left, right: left and right,
    "||": lambda left, right: left or right,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
