"""Values that are known once steps have ended: of parameters, conditions, loops and inputs. No I/O.

A value is an expression over the outputs of steps. It has only the operations of this file: it can't run code or read
attributes, and its size is bounded.
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
"""Artifacts of earlier runs, found in the records."""
WORKSPACE = "workspace"
"""A fact of a run: the folder that its steps share."""


class LeftOut(Exception):
    """A step that this value comes from was skipped, for its condition did not hold; the text names the step."""


class NotPutOut(LeftOut):
    """A step that this value comes from has ended without success and without an output; the text names the step."""


class NotYet(Exception):
    """A step that this value comes from has not ended."""


def _operation(op: str) -> Callable[[Value, Any], Value]:
    """Return the method of a value that makes this operation of it and another value, or a constant."""
    return lambda one, other: Value(op, (one, other))


class Value(msgspec.Struct, frozen=True):
    """An operation and its arguments: constants and other values. Raises ComponentError for a value that is too large.

    `output` (step, output) is the output of a step, `status` (steps) how steps ended, `item` (loop) the current item;
    `collect` (depth, loop, value) a list with the value of each iteration of a loop that is in `depth` other loops;
    `run` (fact) a fact of the run, such as its id. `list` (values) and `object` (key, value, key, value ...) are made
    of values. `artifacts` (source) are the artifacts of an input, and not what they hold; `at` (source, number) is one
    of them. `property` (source, number, name) is a property of such an artifact, None if it is not there, and `uri`
    (source, number) its URI. `newest` (type, field, value, field, value ...) is the newest artifact of a type which an
    earlier run of the pipeline has made, and whose fields have these values.
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
        """Return whether it equals another value, or a constant."""
        return Value("==", (self, other))


def evaluate(what: Any, lookup: Callable[..., Any]) -> Any:
    """Return the result of a value; a constant is its own result.

    `lookup` finds outputs, and may raise LeftOut, NotYet. Raises ComponentError for an operation that makes no sense.
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
    """Return the first of several values that is not left out, or all of them."""
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
    """Return a value whose outputs, items and collections are replaced."""
    if not isinstance(what, Value):
        return what
    if what.op in (OUTPUT, STATUS, ITEM, COLLECT):
        return change(what)
    return Value(what.op, tuple([mapped(one, change) for one in what.args]))


def flat(found: Any) -> Iterator[Any]:
    """Yield the members of nested lists and tuples, in order; None is left out, and anything else is its own member."""
    if isinstance(found, list | tuple):
        for one in found:
            yield from flat(one)
    elif found is not None:
        yield found


def sources(what: Any) -> Iterator[Any]:
    """Yield the steps that a value comes from."""
    if isinstance(what, Value):
        yield from what.args[:1] if what.op == OUTPUT else what.args if what.op == STATUS else ()
        for one in what.args:
            yield from sources(one)


def names_fact(what: Any, fact: str) -> bool:
    """Return whether a value is made of this fact of the run."""
    if not isinstance(what, Value):
        return False
    return (what.op == RUN and what.args == (fact,)) or any(names_fact(one, fact) for one in what.args)


def _fact_of(what: Value, artifacts: list[Any]) -> Any:
    """Return a property, or the URI, of an artifact; None for a property that is missing, and if there is no artifact.

    Raises ComponentError if there are artifacts, but fewer than the number.
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
