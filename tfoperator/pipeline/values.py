"""Values that are known only after steps have ended.

Parameters, conditions, loops and inputs can have such values. The module does no I/O. A value is an expression that
contains outputs of steps. A value has only the operations in this file, so it can't run code or read attributes. The
size of a value is limited.
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
"""An operation: artifacts of earlier runs, found in the records."""
WORKSPACE = "workspace"
"""A fact of a run: the folder that its steps share."""


class LeftOut(Exception):
    """A step on which this value depends was skipped, because its condition did not hold. The text names the step."""


class NotPutOut(LeftOut):
    """A step on which this value depends has ended without success and without an output. The text names the step."""


class NotYet(Exception):
    """A step on which this value depends has not ended."""


def _operation(op: str) -> Callable[[Value, Any], Value]:
    """Return a method of a value. It makes this operation of the value and of another value or a constant."""
    return lambda one, other: Value(op, (one, other))


class Value(msgspec.Struct, frozen=True):
    """An operation and its arguments.

    The arguments are constants and other values. Raises ComponentError if the value is too large. `output` (step,
    output) is the output of a step. `status` (steps) is how steps ended. `item` (loop) is the current item. `collect`
    (depth, loop, value) is a list with the value of each iteration of a loop that is in `depth` other loops. `run`
    (fact) is a fact of the run, such as its id. `list` (values) and `object` (key, value, key, value ...) are made from
    values. `artifacts` (source) are the artifacts of an input, and not their contents. `at` (source, number) is one of
    these artifacts. `property` (source, number, name) is a property of such an artifact. It is None if the property is
    missing. `uri` (source, number) is the artifact's URI. `newest` (type, field, value, field, value ...) is the newest
    artifact of a type that an earlier run of the pipeline has made, and that has these values in these fields.
    """

    op: str
    args: tuple[Any, ...] = ()
    weight: int = 1

    def __post_init__(self) -> None:
        weight = 1 + sum(one.weight if isinstance(one, Value) else 1 for one in self.args)
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
        """Return a value: whether this value equals another value, or a constant."""
        return Value("==", (self, other))


def evaluate(what: Any, lookup: Callable[..., Any]) -> Any:
    """Return the result of a value; a constant is its own result.

    `lookup` finds outputs. It may raise LeftOut or NotYet. Raises ComponentError if an operation can't be computed.
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
    args = [evaluate(one, lookup) for one in what.args]
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
    """Return the first of several values that does not depend on a skipped step, or return all such values."""
    found, missing = [], LeftOut(str(what))
    for one in what.args:
        try:
            found.append(evaluate(one, lookup))
        except NotPutOut as error:
            missing = error
        except LeftOut:
            continue
        if found and what.op == "first":
            return found[0]
    if what.op == "first":
        raise missing
    return found


def mapped(what: Any, change: Callable[[Value], Any]) -> Any:
    """Return a value in which outputs, items and collections are replaced."""
    if not isinstance(what, Value):
        return what
    if what.op in (OUTPUT, STATUS, ITEM, COLLECT):
        return change(what)
    return Value(what.op, tuple([mapped(one, change) for one in what.args]))


def flat(found: Any) -> Iterator[Any]:
    """Yield the members of nested lists and tuples, in order. Skip None. Yield any other value itself."""
    if isinstance(found, list | tuple):
        for one in found:
            yield from flat(one)
    elif found is not None:
        yield found


def sources(what: Any) -> Iterator[Any]:
    """Yield the steps on which a value depends."""
    if isinstance(what, Value):
        yield from what.args[:1] if what.op == OUTPUT else what.args if what.op == STATUS else ()
        for one in what.args:
            yield from sources(one)


def names_fact(what: Any, fact: str) -> bool:
    """Return whether a value contains this fact of the run."""
    if not isinstance(what, Value):
        return False
    return (what.op == RUN and what.args == (fact,)) or any(names_fact(one, fact) for one in what.args)


def _fact_of(what: Value, artifacts: list[Any]) -> Any:
    """Return a property of an artifact, or its URI. Return None if the property is missing, or if there is no artifact.

    Raises ComponentError if there are artifacts, but none has this number.
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
    "at": lambda found, number: list(flat(found))[number],
    "positions": lambda found: list(range(len(found))),
    "list": lambda *parts: list(parts),
    "object": _object,
    "text": lambda *parts: "".join(map(rendered_value, parts)),
    "int": int,
    "double": float,
    "!": operator.not_,
    "&&": lambda one, other: one and other,
    "||": lambda one, other: one or other,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
