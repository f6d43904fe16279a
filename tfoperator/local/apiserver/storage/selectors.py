"""Label and field selectors. The selectors of a request are parsed once, and then compared with every object and watch
event.

The grammar is the same as for kubectl's `-l` and `--field-selector`. For an invalid selector, the response is a 400
that quotes the invalid part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tfoperator.local.apiserver.errors import bad_request
from tfoperator.local.apiserver.members import member_at, parse_int64
from tfoperator.local.apiserver.resource_types import ResourceType

_KEY_PATTERN = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET_TERM = re.compile(rf"\s*({_KEY_PATTERN})\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUAL_TERM = re.compile(rf"\s*({_KEY_PATTERN})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)\s*")
_COMPARE_TERM = re.compile(rf"\s*({_KEY_PATTERN})\s*([<>])\s*(-?[0-9]+)\s*")
_EXISTS_TERM = re.compile(rf"\s*(!?)\s*({_KEY_PATTERN})\s*")
_FIELD_TERM = re.compile(r"([^=!]+?)(==|=|!=)(.*)", re.DOTALL)

_LabelTest = Callable[[Mapping[str, str]], bool]


class _FieldTerm(msgspec.Struct, frozen=True):
    path: str
    value: str
    equal: bool


class Selector:
    """Label requirements and field terms that must all hold. An empty selector matches every object."""

    def __init__(self, labels: tuple[_LabelTest, ...], fields: tuple[_FieldTerm, ...]) -> None:
        """Initialize with parsed selectors. Callers use `parse_selector` instead."""
        self._labels = labels
        self._fields = fields

    @property
    def empty(self) -> bool:
        """Whether the selection matches everything."""
        return not self._labels and not self._fields

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Return whether an object matches. The argument is the object's whole dictionary."""
        if self._labels:
            labels = obj["metadata"].get("labels") or {}
            if not all(test(labels) for test in self._labels):
                return False
        return all((field_value(obj, term.path) == term.value) is term.equal for term in self._fields)


EVERYTHING = Selector((), ())


def field_value(obj: Mapping[str, Any], path: str) -> str:
    """Return the value of a field as the string that a field selector compares.

    Return "" for an absent field, but "false" for an absent `spec.unschedulable`.
    """
    if path == "source":
        path = "source.component"
    value = member_at(obj, path.split("."))
    if value is None:
        return "false" if path == "spec.unschedulable" else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def parse_selector(resource: ResourceType, labels: str, fields: str) -> Selector:
    """Parse `labelSelector` and `fieldSelector` of a request.

    Raise StatusError 400 if a selector is malformed or not supported.
    """
    if not labels and not fields:
        return EVERYTHING
    return Selector(_parse_labels(labels), _parse_fields(resource, fields))


def _parse_labels(text: str) -> tuple[_LabelTest, ...]:
    tests: list[_LabelTest] = []
    position = 0
    while position < len(text):
        test, position = _parse_requirement(text, position)
        tests.append(test)
        if position < len(text):
            if text[position] != ",":
                raise _unparsable(text, position)
            position += 1
            if position == len(text):
                raise _unparsable(text, position)
    return tuple(tests)


def _unparsable(text: str, position: int) -> Exception:
    return bad_request(f"unable to parse requirement: found {text[position:]!r} in label selector {text!r}")


def _parse_requirement(text: str, position: int) -> tuple[_LabelTest, int]:
    if match := _SET_TERM.match(text, position):
        key, operator, listed = match.groups()
        values = frozenset(v.strip() for v in listed.split(","))
        return (_in(key, values) if operator == "in" else _not_in(key, values)), match.end()
    if match := _EQUAL_TERM.match(text, position):
        key, operator, value = match.groups()
        return (_not_in(key, {value}) if operator == "!=" else _in(key, {value})), match.end()
    if match := _COMPARE_TERM.match(text, position):
        key, operator, value = match.groups()
        try:
            return _compare(key, operator, parse_int64(value)), match.end()
        except ValueError:
            raise _unparsable(text, position) from None
    if match := _EXISTS_TERM.match(text, position):
        negated, key = match.groups()
        return _exists(key, wanted=not negated), match.end()
    raise _unparsable(text, position)


def _in(key: str, values: frozenset[str] | set[str]) -> _LabelTest:
    return lambda labels: key in labels and labels[key] in values


def _not_in(key: str, values: frozenset[str] | set[str]) -> _LabelTest:
    return lambda labels: key not in labels or labels[key] not in values


def _exists(key: str, *, wanted: bool) -> _LabelTest:
    return lambda labels: (key in labels) is wanted


def _compare(key: str, operator: str, bound: int) -> _LabelTest:
    def test(labels: Mapping[str, str]) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value > bound if operator == ">" else value < bound

    return test


def _parse_fields(resource: ResourceType, text: str) -> tuple[_FieldTerm, ...]:
    terms = []
    for part in filter(None, text.split(",")):
        match = _FIELD_TERM.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid field selector {text!r}: can't understand {part!r}")
        path, operator, value = match.groups()
        supported = path == "metadata.name" or (path == "metadata.namespace" and resource.namespaced)
        if not supported and path not in resource.fields:
            raise bad_request(
                f'Unable to find "{resource.group}/{resource.version}, Resource={resource.plural}" that match '
                f'field selector "{text}": field label not supported: {path}'
            )
        terms.append(_FieldTerm(path, value, operator != "!="))
    return tuple(terms)
