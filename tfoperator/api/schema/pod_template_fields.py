"""The CRD's additions to pod templates: the bounds and rules of the members that jobs need.

`POD_TEMPLATE_MEMBERS` has them for the whole schema of `pod_schemas`, and `POD_TEMPLATE_FIELDS` for the open one, which
leaves all other members unchecked. Both are made of the same bounds.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api import templates
from tfoperator.api.names import DEFAULT_CONTAINER_NAME, MAX_NAME_LENGTH
from tfoperator.api.schema.cel_rules import cel_rule
from tfoperator.api.schema.structs import Field

_MAX_CONTAINERS = 64

_CONTAINERS: dict[str, Any] = {
    "nullable": True,  # Kueue's webhook writes null where a parameter server has no template
    "minItems": 1,
    "maxItems": _MAX_CONTAINERS,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "x-kubernetes-validations": [
        cel_rule(
            f"self.exists(container, container.name == '{DEFAULT_CONTAINER_NAME}')",
            f'one must be named "{DEFAULT_CONTAINER_NAME}"',
            "FieldValueRequired",
            told=f'\'one must be named "{DEFAULT_CONTAINER_NAME}", but there is only "\' + self[0].name + '
            "(size(self) > 1 ? '\", ...' : '\"')",
        )
    ],
}


_NAME = {"minLength": 1, "maxLength": MAX_NAME_LENGTH}
_IMAGE = {"minLength": 1}
_PORT = {"minimum": 1, "maximum": 65535}
_CONTAINER = {"items": {"required": ["image", "name"]}}
_PORTS_ARE = "Its ports; tfjob-port (2222 if there is none) is TensorFlow's."
_CONTAINERS_ARE = f"The pod's containers; the container named {DEFAULT_CONTAINER_NAME} trains."

POD_TEMPLATE_MEMBERS: dict[tuple[str, ...], dict[str, Any]] = {
    (): {"required": ["spec"]},
    ("spec", "containers"): {**_CONTAINERS, **_CONTAINER, "description": _CONTAINERS_ARE},
    ("spec", "initContainers"): _CONTAINER,
    **{
        ("spec", group, *member): bound
        for group in ("containers", "initContainers")
        for member, bound in (
            (("name",), _NAME),
            (("image",), _IMAGE),
            (("ports",), {"description": _PORTS_ARE}),
            (("ports", "containerPort"), _PORT),
        )
    },
}

POD_TEMPLATE_FIELDS: dict[type, dict[str, Field]] = {
    templates.VolumeSource: {},
    templates.PodTemplate: {
        "metadata": Field("Labels and annotations of the pods, besides the operator's."),
        "spec": Field("The pod's spec."),
    },
    templates.PodTemplateMetadata: {
        "labels": Field("Labels of the pods."),
        "annotations": Field("Annotations of the pods."),
    },
    templates.PodTemplateSpec: {
        "containers": Field(_CONTAINERS_ARE, _CONTAINERS),
        "initContainers": Field("Containers that run before the others, one by one."),
        "restartPolicy": Field("It has no effect in a template: the restartPolicy of the replica type holds."),
        "schedulerName": Field("The scheduler of the pods."),
    },
    templates.TemplateContainer: {
        "name": Field("Name of the container.", _NAME),
        "image": Field("Container image, such as tensorflow/tensorflow:2.20.0.", _IMAGE),
        "ports": Field(_PORTS_ARE),
    },
    templates.TemplatePort: {
        "name": Field("Name of the port."),
        "containerPort": Field("Number of the port.", _PORT),
    },
}
