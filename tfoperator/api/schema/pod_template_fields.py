"""The CRD's additions to pod templates and volumes: the members that a job needs in them.

`VIEWS` has these additions for each of Kubernetes' types that a TFJob does not decode. An entry has two parts. `struct`
describes the type in the open schema, in which API servers do not check any other member. `members` has the additions
to the complete schema, which the module `pod_schemas` makes. Both parts are made from the declarations of the fields in
`tfoperator.api.replicas.templates`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from tfoperator.api.fields.field import declared
from tfoperator.api.pods.types import TEMPLATE, VOLUME_SOURCE
from tfoperator.api.replicas import templates
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.schema.cel_rules import cel_rule

Members = Mapping[tuple[str, ...], Mapping[str, Any]]
"""Additions to members of a schema, by their paths."""


class SchemaView(NamedTuple):
    """The additions to one of Kubernetes' types."""

    struct: type[msgspec.Struct]
    members: Members


CONTAINERS: dict[str, Any] = {
    "x-kubernetes-validations": [
        cel_rule(
            f"self.exists(container, container.name == '{DEFAULT_CONTAINER_NAME}')",
            f'a container must be named "{DEFAULT_CONTAINER_NAME}"',
            "FieldValueRequired",
            expression=f'\'a container must be named "{DEFAULT_CONTAINER_NAME}", but there is only "\' + self[0].name '
            "+ (size(self) > 1 ? '\", ...' : '\"')",
        )
    ],
}
"""The additions to the list of containers, besides its declaration."""

_CONTAINER = {"items": {"required": ["image", "name"]}}


def _members_of_template() -> Members:
    spec, container, port = (
        {name: declaration.field for name, declaration in declared(struct).items()}
        for struct in (templates.PodTemplateSpec, templates.TemplateContainer, templates.TemplatePort)
    )
    containers, number = spec["containers"], port["containerPort"]
    return {
        (): {"required": ["spec"]},
        ("spec", "containers"): {
            **containers.schema,
            **CONTAINERS,
            **_CONTAINER,
            "description": containers.description,
        },
        ("spec", "initContainers"): _CONTAINER,
        **{
            ("spec", group, *path): addition
            for group in ("containers", "initContainers")
            for path, addition in (
                (("name",), container["name"].schema),
                (("image",), container["image"].schema),
                (("ports",), {"description": container["ports"].description}),
                (("ports", "containerPort"), {"minimum": number.ge, "maximum": number.le}),
            )
        },
    }


VIEWS: Mapping[str, SchemaView] = {
    TEMPLATE: SchemaView(templates.PodTemplate, _members_of_template()),
    VOLUME_SOURCE: SchemaView(
        templates.VolumeSource,
        {("name",): {"description": "It has no effect here: the operator names the volume."}},
    ),
}

OPEN_STRUCTS = frozenset(
    {
        templates.PodTemplate,
        templates.PodTemplateMetadata,
        templates.PodTemplateSpec,
        templates.TemplateContainer,
        templates.TemplatePort,
        templates.VolumeSource,
    }
)
"""The types in which API servers keep all other members unchecked."""
