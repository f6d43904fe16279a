"""Reads `scheduling` of the configuration file: which priority classes and queues jobs' PodGroups may name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tfoperator.api.problems import Problem, member, shown
from tfoperator.api.structure import type_problems, unknown_members
from tfoperator.controller import ANY, SchedulingRules
from tfoperator.operator.options.values import NAMESPACE, refuse

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PATH = "scheduling"


def parse_scheduling(value: object) -> SchedulingRules:
    """The rules; those of an operator without a file for None. Raises ValueError with every problem."""
    if value is None:
        return SchedulingRules()
    refuse(type_problems(value, SchedulingRules, _PATH) or _problems(value))
    return msgspec.convert(value, SchedulingRules)


def _problems(value: object) -> Iterator[Problem]:
    """What is wrong beyond types. A null would silently be the default, which allows more than nothing."""
    for unknown in unknown_members(value, SchedulingRules, _PATH):
        yield Problem(member(unknown.path, unknown.name), f"is unknown; there are {', '.join(unknown.known)}")
    for kind, lists in value.items() if isinstance(value, dict) else ():
        path = member(_PATH, str(kind))
        if not isinstance(lists, dict):
            yield Problem(path, "must be an object with default and namespaces")
            continue
        namespaces = lists.get("namespaces", {})
        if namespaces is None:
            yield Problem(member(path, "namespaces"), "must be an object of lists by namespace")
            continue
        yield from _list_problems(member(path, "default"), lists.get("default"))
        for namespace, names in namespaces.items():
            at = f"{path}.namespaces[{namespace}]"
            if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
                yield Problem(at, "is no name of a namespace")
            yield from _list_problems(at, names)


def _list_problems(path: str, names: object) -> Iterator[Problem]:
    if not isinstance(names, list):
        yield Problem(path, "must be a list; [] allows none")
        return
    for position, name in enumerate(names):
        if name != ANY and not (isinstance(name, str) and _NAME.fullmatch(name)):
            yield Problem(f"{path}[{position}]", f'must be a name, or "{ANY}" for any, is {shown(name)}')
