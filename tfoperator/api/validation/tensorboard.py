"""Finds the problems of `spec.tensorBoard`. Pure.

A problem is an error only if the job certainly gets no TensorBoard. A log directory to which no program writes is no
error, because it can't be distinguished from a correct directory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from tfoperator.api.fields.limits import MAX_LOG_DIR_LENGTH, MAX_OBJECT_NAME_LENGTH, MAX_PATH_LENGTH
from tfoperator.api.fields.problems import Problem, member, shown
from tfoperator.api.fields.structure import type_problems
from tfoperator.api.replicas.names import TENSORBOARD_HOST_VARIABLE, TENSORBOARD_PORT_VARIABLE
from tfoperator.api.v1.parts.tensorboard import TensorBoard
from tfoperator.api.validation.checks import volume_sources, warning
from tfoperator.api.validation.declared import field_problems
from tfoperator.kube.views.pod_spec import EnvVar, SecurityContext

_PATH = "spec.tensorBoard"
_RESERVED_VARIABLES = (TENSORBOARD_HOST_VARIABLE, TENSORBOARD_PORT_VARIABLE)


class _PodParts(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of `spec.tensorBoard` that the operator copies unchanged into the TensorBoard's pod.

    If such a field has a wrong type, an API server can't read the pod.
    """

    env: tuple[EnvVar, ...] = ()
    security_context: SecurityContext | None = None


def validate_tensorboard(tensorboard: TensorBoard | None) -> Iterator[Problem]:
    """Yield the problems of a TensorBoard, errors and warnings; nothing if the job has no TensorBoard."""
    if tensorboard is None:
        return
    rules = {
        "logDir": _validate_log_dir(tensorboard),
        "volumes": _validate_volumes(tensorboard),
        "volumeMounts": _validate_mounts(tensorboard),
        "securityContext": _validate_pod_parts(tensorboard),
        "env": _validate_variables(tensorboard),
        "imagePullSecrets": _validate_secrets(tensorboard),
        "resources": _validate_resources(tensorboard),
    }
    yield from field_problems(_PATH, tensorboard, rules)


def _validate_log_dir(tensorboard: TensorBoard) -> Iterator[Problem]:
    log_dir = tensorboard.log_dir
    if log_dir.startswith("/") and len(log_dir) <= MAX_LOG_DIR_LENGTH and not tensorboard.volume_mounts:
        yield warning(
            member(_PATH, "logDir"),
            f"{shown(log_dir)} is in none of the TensorBoard's volumeMounts, so it can't contain the replicas' event "
            "files in a cluster",
        )


def _validate_volumes(tensorboard: TensorBoard) -> Iterator[Problem]:
    path = member(_PATH, "volumes")
    names: set[str] = set()
    for position, volume in enumerate(tensorboard.volumes):
        name = yield from _text(f"{path}[{position}]", volume, "name")
        if name and name in names:
            yield Problem(f"{path}[{position}].name", f"{shown(name)} is the name of another volume, too")
        names.add(name)
        kinds = volume_sources(volume)
        if len(kinds) != 1:
            actual = f", but has {' and '.join(kinds)}" if kinds else ""
            yield Problem(f"{path}[{position}]", f"must have exactly one kind of volume{actual}")
        elif kinds == ["emptyDir"]:
            yield warning(
                f"{path}[{position}]",
                "must not be an emptyDir if replicas write the event files: each pod has its own emptyDir",
            )


def _validate_mounts(tensorboard: TensorBoard) -> Iterator[Problem]:
    path = member(_PATH, "volumeMounts")
    names = {volume.get("name") for volume in tensorboard.volumes if isinstance(volume.get("name"), str)}
    for position, mount in enumerate(tensorboard.volume_mounts):
        yield from _text(f"{path}[{position}]", mount, "mountPath")
        name = yield from _text(f"{path}[{position}]", mount, "name")
        if name and name not in names:
            yield Problem(f"{path}[{position}].name", f"{shown(name)} is none of {_PATH}.volumes")


def _validate_pod_parts(tensorboard: TensorBoard) -> Iterator[Problem]:
    parts = {"env": list(tensorboard.env), "securityContext": tensorboard.security_context}
    # Problems of names are left out here: names are checked together with all other names.
    yield from (problem for problem in type_problems(parts, _PodParts, _PATH) if not problem.field.endswith("].name"))


def _validate_variables(tensorboard: TensorBoard) -> Iterator[Problem]:
    for position, variable in enumerate(tensorboard.env):
        path, name = f"{_PATH}.env[{position}]", variable.get("name")
        yield from _name(path, variable, MAX_PATH_LENGTH)
        if name in _RESERVED_VARIABLES:
            yield warning(path, f"has no effect: the operator sets {name}")


def _validate_secrets(tensorboard: TensorBoard) -> Iterator[Problem]:
    for position, secret in enumerate(tensorboard.image_pull_secrets):
        yield from _name(f"{_PATH}.imagePullSecrets[{position}]", secret, MAX_OBJECT_NAME_LENGTH)


def _name(path: str, item: Mapping[str, Any], length: int) -> Iterator[Problem]:
    name = yield from _text(path, item, "name")
    if len(name) > length:
        yield Problem(f"{path}.name", f"must have at most {length} characters")


def _validate_resources(tensorboard: TensorBoard) -> Iterator[Problem]:
    for name in ("limits", "requests"):
        amounts = (tensorboard.resources or {}).get(name)
        if amounts is not None and not isinstance(amounts, dict):
            yield Problem(f"{_PATH}.resources.{name}", "must be an object such as {cpu: 500m, memory: 1Gi}")


def _text(path: str, value: Mapping[str, Any], name: str) -> Generator[Problem, None, str]:
    """Return a required string of an object, or "" if the object does not have it; yield the problems of the string."""
    text = value.get(name)
    if isinstance(text, str) and text:
        return text
    yield Problem(
        member(path, name), "is required" if text in (None, "") else f"must be a string, but is {shown(text)}"
    )
    return ""
