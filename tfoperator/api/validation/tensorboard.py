"""Finds the problems of `spec.tensorBoard`. Pure.

Only what certainly leaves a job without its TensorBoard is an error; a log directory to which no program writes looks
like a good one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from tfoperator.api.names import TENSORBOARD_HOST_VARIABLE, TENSORBOARD_PORT_VARIABLE
from tfoperator.api.problems import Problem, member, shown
from tfoperator.api.structure import type_problems
from tfoperator.api.v1.types import TensorBoard, TensorBoardServiceType
from tfoperator.api.validation.limits import (
    MAX_LOG_DIR_LENGTH,
    MAX_OBJECT_NAME_LENGTH,
    MAX_PATH_LENGTH,
    MAX_VARIABLES,
    MAX_VOLUMES,
    check_one_of,
    volume_sources,
    warning,
)
from tfoperator.kube.pod_spec import EnvVar, SecurityContext

_PATH = "spec.tensorBoard"
_RESERVED_VARIABLES = (TENSORBOARD_HOST_VARIABLE, TENSORBOARD_PORT_VARIABLE)


class _PodParts(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of a TensorBoard that go unchanged into its pod, which an API server can't read with a wrong type."""

    env: tuple[EnvVar, ...] = ()
    security_context: SecurityContext | None = None


def validate_tensorboard(tensorboard: TensorBoard | None) -> Iterator[Problem]:
    """Yield the problems of a TensorBoard, errors and warnings; none if it is None."""
    if tensorboard is None:
        return
    yield from _validate_log_dir(tensorboard)
    yield from check_one_of(member(_PATH, "serviceType"), tensorboard.service_type, TensorBoardServiceType)
    yield from _validate_volumes(tensorboard)
    yield from _validate_pod_parts(tensorboard)
    for name in ("limits", "requests"):
        amounts = (tensorboard.resources or {}).get(name)
        if amounts is not None and not isinstance(amounts, dict):
            yield Problem(f"{_PATH}.resources.{name}", "must be an object such as {cpu: 500m, memory: 1Gi}")


def _validate_log_dir(tensorboard: TensorBoard) -> Iterator[Problem]:
    path = member(_PATH, "logDir")
    if not tensorboard.log_dir:
        yield Problem(path, "is required: the directory (or URL such as gs://bucket/logs) of the event files")
    elif len(tensorboard.log_dir) > MAX_LOG_DIR_LENGTH:
        yield Problem(path, f"must have at most {MAX_LOG_DIR_LENGTH} characters")
    elif tensorboard.log_dir.startswith("/") and not tensorboard.volume_mounts:
        yield warning(
            path, f"{shown(tensorboard.log_dir)} is in none of its volumeMounts: nobody writes there in a cluster"
        )


def _validate_volumes(tensorboard: TensorBoard) -> Iterator[Problem]:
    path = member(_PATH, "volumes")
    names: set[str] = set()
    if len(tensorboard.volumes) > MAX_VOLUMES:
        yield Problem(path, f"must have at most {MAX_VOLUMES} items")
    for position, volume in enumerate(tensorboard.volumes):
        name = yield from _text(f"{path}[{position}]", volume, "name")
        if name and name in names:
            yield Problem(f"{path}[{position}].name", f"{shown(name)} is the name of another volume, too")
        names.add(name)
        kinds = volume_sources(volume)
        if len(kinds) != 1:
            found = f", but has {' and '.join(kinds)}" if kinds else ""
            yield Problem(f"{path}[{position}]", f"must have one kind of volume{found}")
        elif kinds == ["emptyDir"]:
            yield warning(f"{path}[{position}]", "an emptyDir is its pod's own: what replicas write is not in it")
    path = member(_PATH, "volumeMounts")
    if len(tensorboard.volume_mounts) > MAX_VOLUMES:
        yield Problem(path, f"must have at most {MAX_VOLUMES} items")
    for position, mount in enumerate(tensorboard.volume_mounts):
        yield from _text(f"{path}[{position}]", mount, "mountPath")
        name = yield from _text(f"{path}[{position}]", mount, "name")
        if name and name not in names:
            yield Problem(f"{path}[{position}].name", f"{shown(name)} is none of {_PATH}.volumes")


def _validate_pod_parts(tensorboard: TensorBoard) -> Iterator[Problem]:
    parts = {"env": list(tensorboard.env), "securityContext": tensorboard.security_context}
    # Names are checked below, together with all other names.
    yield from (one for one in type_problems(parts, _PodParts, _PATH) if not one.field.endswith("].name"))
    for field, items, limit, length in (
        ("env", tensorboard.env, MAX_VARIABLES, MAX_PATH_LENGTH),
        ("imagePullSecrets", tensorboard.image_pull_secrets, MAX_VOLUMES, MAX_OBJECT_NAME_LENGTH),
    ):
        path = member(_PATH, field)
        if len(items) > limit:
            yield Problem(path, f"must have at most {limit} items")
        for position, item in enumerate(items):
            name = yield from _text(f"{path}[{position}]", item, "name")
            if len(name) > length:
                yield Problem(f"{path}[{position}].name", f"must have at most {length} characters")
            if field == "env" and item.get("name") in _RESERVED_VARIABLES:
                yield warning(f"{path}[{position}]", f"{item['name']} is the operator's: this value is not used")


def _text(path: str, value: Mapping[str, Any], name: str) -> Generator[Problem, None, str]:
    """Return a required string of an object, "" if it has none; yields its problems."""
    found = value.get(name)
    if isinstance(found, str) and found:
        return found
    yield Problem(member(path, name), "is required" if found in (None, "") else f"must be a string, is {shown(found)}")
    return ""
