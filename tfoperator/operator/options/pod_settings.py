"""Reads two sections of the configuration file.

`accelerators` contains volumes and variables that the operator adds to containers which request an accelerator.
`scheduling` contains the priority classes and queues that PodGroups may use. Pure. With a mistake in `accelerators`,
the API server would refuse the pods of users, perhaps hours later. So the reading of the file fails if an API server
would refuse a pod with these settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tfoperator.api.fields.problems import Problem, member, shown
from tfoperator.api.fields.structure import drop_nulls, type_problems, unknown_members
from tfoperator.api.replicas.names import CHECKPOINT_VARIABLE, CHECKPOINT_VOLUME
from tfoperator.controller import ANY, Accelerator, SchedulingRules
from tfoperator.operator.options.values import NAMESPACE, ValueKind, refuse

_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VOLUME_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE_NAME = re.compile(r"[!-<>-~]+")  # Kubernetes accepts printable ASCII, but no "="
_MOUNT_TEXTS = frozenset({"mountPropagation", "recursiveReadOnly", "subPath", "subPathExpr"})
_MOUNT_MEMBERS = _MOUNT_TEXTS | {"mountPath", "name", "readOnly"}
_VARIABLE_MEMBERS = frozenset({"name", "value", "valueFrom"})
_RESERVED_VARIABLES = ("TF_CONFIG", CHECKPOINT_VARIABLE)


def parse_accelerators(value: object) -> dict[str, Accelerator]:
    """Return the accelerators by resource name. Raises ValueError, whose message lists the problems."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"must be a mapping of resource names such as nvidia.com/gpu, but is {value!r}")
    refuse(
        problem
        for name, setting in value.items()
        for problem in _accelerator_problems(f"accelerators[{name}]", name, setting)
    )
    return {name: msgspec.convert(drop_nulls(setting, Accelerator), Accelerator) for name, setting in value.items()}


def _accelerator_problems(path: str, name: object, value: object) -> Iterator[Problem]:
    if not isinstance(name, str) or not _RESOURCE.fullmatch(name):
        yield Problem(path, "is not a name of an extended resource, such as nvidia.com/gpu")
    wrong = type_problems(value, Accelerator, path)
    if wrong or not isinstance(value, dict):
        yield from wrong
        return
    for unknown in unknown_members(value, Accelerator, path):
        yield Problem(member(path, unknown.name), f"is not a valid key; the keys are {', '.join(unknown.members)}")
    volumes, mounts, env = (value.get(field) or [] for field in ("volumes", "volumeMounts", "env"))
    if None in (*volumes, *mounts, *env):
        yield Problem(path, "must not have an empty entry in the list")
        return
    names = [volume.get("name") for volume in volumes]
    for position, volume in enumerate(volumes):
        yield from _volume_problems(member(path, f"volumes[{position}]"), volume)
    for position, mount in enumerate(mounts):
        yield from _mount_problems(member(path, f"volumeMounts[{position}]"), mount, names)
    for position, variable in enumerate(env):
        yield from _variable_problems(member(path, f"env[{position}]"), variable)
    for field, items, key in (
        ("volumes", volumes, "name"),
        ("volumeMounts", mounts, "mountPath"),
        ("env", env, "name"),
    ):
        yield from _doubles(member(path, field), items, key)


def _volume_problems(path: str, volume: dict[str, Any]) -> Iterator[Problem]:
    yield from _text_problems(member(path, "name"), volume.get("name"), _VOLUME_NAME.fullmatch, "a volume's name")
    if volume.get("name") == CHECKPOINT_VOLUME:
        yield Problem(member(path, "name"), "must not be the name of the volume that spec.checkpoint adds")
    kinds = [kind for kind, source in volume.items() if kind != "name" and isinstance(source, dict)]
    if len(kinds) != 1 or len(volume) != 2:
        yield Problem(
            path, "must have a name and exactly one kind of volume, such as hostPath: {path: /usr/local/nvidia}"
        )


def _mount_problems(path: str, mount: dict[str, Any], volumes: list[Any]) -> Iterator[Problem]:
    name, place = mount.get("name"), mount.get("mountPath")
    if name not in volumes:
        yield Problem(member(path, "name"), f"must be the name of one of the volumes, but is {shown(name)}")
    yield from _text_problems(member(path, "mountPath"), place, lambda text: text.startswith("/"), "an absolute path")
    if not isinstance(mount.get("readOnly", False), bool):
        yield Problem(member(path, "readOnly"), "must be true or false")
    for field in _MOUNT_TEXTS:
        if not isinstance(mount.get(field, ""), str):
            yield Problem(member(path, field), f"must be text, but is {mount[field]!r}")
    yield from _unknown(path, mount, _MOUNT_MEMBERS)


def _variable_problems(path: str, variable: dict[str, Any]) -> Iterator[Problem]:
    name, value, source = variable.get("name"), variable.get("value"), variable.get("valueFrom")
    yield from _text_problems(member(path, "name"), name, _VARIABLE_NAME.fullmatch, "a variable's name")
    if name in _RESERVED_VARIABLES:
        yield Problem(member(path, "name"), f"must not be {name}, because the operator sets this variable itself")
    if value is not None and not isinstance(value, str):
        # YAML's 1 and true are not text; Kubernetes requires text.
        yield Problem(member(path, "value"), f"must be text, but is {value!r}: put it in quotes")
    if source is not None and (value is not None or not isinstance(source, dict)):
        yield Problem(member(path, "valueFrom"), "must be an object, and must not be set together with value")
    yield from _unknown(path, variable, _VARIABLE_MEMBERS)


def _text_problems(path: str, value: object, fits: Callable[[str], object], what: str) -> Iterator[Problem]:
    if value is None:
        yield Problem(path, "is required")
    elif not isinstance(value, str) or not fits(value):
        yield Problem(path, f"must be {what}, is {shown(value)}")


def _unknown(path: str, value: dict[str, Any], members: frozenset[str]) -> Iterator[Problem]:
    for name in value:
        if name not in members:
            yield Problem(member(path, str(name)), f"is not a valid key; the keys are {', '.join(sorted(members))}")


def _doubles(path: str, items: list[dict[str, Any]], key: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for position, item in enumerate(items):
        value = str(item.get(key)).rstrip("/")
        if item.get(key) is not None and value in seen:
            yield Problem(member(f"{path}[{position}]", key), f"is there twice: {shown(item.get(key))}")
        seen.add(value)


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ANNOTATION = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PATH = "scheduling"


def parse_scheduling(value: object) -> SchedulingRules:
    """Return the scheduling rules.

    For None, return the rules of an operator that has no configuration file. Raises ValueError with all problems.
    """
    if value is None:
        return SchedulingRules()
    refuse(type_problems(value, SchedulingRules, _PATH) or _problems(value))
    return msgspec.convert(value, SchedulingRules)


def _problems(value: object) -> Iterator[Problem]:
    """Yield the problems that the check of types does not find.

    These are unknown keys, null values and invalid names. A null value would mean the default, and the default allows
    more than an empty list. An administrator who writes null may mean the empty list, so null is a problem.
    """
    for unknown in unknown_members(value, SchedulingRules, _PATH):
        yield Problem(
            member(unknown.path, unknown.name), f"is not a valid key; the keys are {', '.join(unknown.members)}"
        )
    for kind, lists in value.items() if isinstance(value, dict) else ():
        path = member(_PATH, str(kind))
        if not isinstance(lists, dict):
            yield Problem(path, "must be an object with default and namespaces")
            continue
        namespaces = lists.get("namespaces", {})
        if namespaces is None:
            yield Problem(member(path, "namespaces"), "must be an object with a list for each namespace")
            continue
        pattern = _ANNOTATION if kind == "annotations" else _NAME
        yield from _list_problems(member(path, "default"), lists.get("default"), pattern)
        for namespace, names in namespaces.items():
            at = f"{path}.namespaces[{namespace}]"
            if not isinstance(namespace, str) or not NAMESPACE.fullmatch(namespace):
                yield Problem(at, "is not a valid name of a namespace")
            yield from _list_problems(at, names, pattern)


def _list_problems(path: str, names: object, pattern: re.Pattern[str]) -> Iterator[Problem]:
    if not isinstance(names, list):
        yield Problem(path, "must be a list; an empty list [] allows nothing")
        return
    for position, name in enumerate(names):
        if name != ANY and not (isinstance(name, str) and pattern.fullmatch(name)):
            yield Problem(f"{path}[{position}]", f'must be a name, or "{ANY}" for any name, but is {shown(name)}')


ACCELERATORS = ValueKind("", parse_accelerators, "an object")
SCHEDULING = ValueKind("", parse_scheduling, "an object")
