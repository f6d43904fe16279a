"""Finds the problems of a replica's pod template: the containers, and the members that the operator reads. Pure.

The operator passes all other members of the template on unchanged. So their types are checked only in a handwritten
manifest (the module `pod_fields`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tfoperator.api.fields.limits import MAX_NAME_LENGTH
from tfoperator.api.fields.problems import Problem, member, shown
from tfoperator.api.fields.structure import type_problems
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.replicas.templates import PodTemplate, TemplateContainer, decode_present_template, is_absent
from tfoperator.api.validation.checks import warning
from tfoperator.api.validation.declared import field_problems

_CONTAINER_NAME = re.compile("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")


def validate_template(
    path: str, raw: msgspec.Raw, *, own_policy: str = "has no effect: the restartPolicy of the replica type is used"
) -> Iterator[Problem]:
    """Yield the errors and warnings of a template at `path`, also an error if there is no template.

    `own_policy` is the warning about a restart policy in the template.
    """
    if is_absent(raw):
        yield Problem(path, "is required")
        return
    try:
        template = decode_present_template(raw)
    except msgspec.ValidationError as error:
        problems = type_problems(msgspec.json.decode(raw), PodTemplate, path)
        yield from problems or [Problem(path, str(error))]
        return
    spec = member(path, "spec")
    if template.spec.restart_policy:
        yield warning(member(spec, "restartPolicy"), own_policy)
    yield from _validate_containers(spec, template)


def _validate_containers(path: str, template: PodTemplate) -> Iterator[Problem]:
    containers = template.spec.containers
    if not containers:
        yield Problem(member(path, "containers"), "must have at least one container")
        return
    names: set[str] = set()
    for field, group in (("containers", containers), ("initContainers", template.spec.init_containers)):
        for position, container in enumerate(group):
            yield from _validate_container(f"{path}.{field}[{position}]", container, names)
    if all(container.name != DEFAULT_CONTAINER_NAME for container in containers):
        # The existing containers show whether a user forgot the container or only named it differently.
        there = ", ".join(shown(container.name) for container in containers)
        yield Problem(
            member(path, "containers"),
            f"a container must be named {shown(DEFAULT_CONTAINER_NAME)}, but there is only {there}",
        )


def _validate_container(path: str, container: TemplateContainer, names: set[str]) -> Iterator[Problem]:
    if not container.name:
        yield Problem(member(path, "name"), "is required")
    elif len(container.name) > MAX_NAME_LENGTH or not _CONTAINER_NAME.fullmatch(container.name):
        yield Problem(
            member(path, "name"),
            f"must consist of at most {MAX_NAME_LENGTH} lower-case letters, digits and '-' and neither start nor end "
            f"with '-', but is {shown(container.name)}",
        )
    elif container.name in names:
        yield Problem(member(path, "name"), f"{shown(container.name)} is the name of another container, too")
    names.add(container.name)
    if not container.image.strip():
        yield Problem(member(path, "image"), "is required")
    for position, port in enumerate(container.ports):
        yield from field_problems(f"{path}.ports[{position}]", port)
