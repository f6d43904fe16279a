"""The CRD's schema of pod templates. It describes the members that jobs need, and leaves all others open."""

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
        "containers": Field(f"The pod's containers; one is named {DEFAULT_CONTAINER_NAME}.", _CONTAINERS),
        "initContainers": Field("Containers that run before the others, one by one."),
        "restartPolicy": Field("Without effect: the replica's own holds."),
        "schedulerName": Field("The scheduler of the pods."),
    },
    templates.TemplateContainer: {
        "name": Field("Its name.", {"minLength": 1, "maxLength": MAX_NAME_LENGTH}),
        "image": Field("Container image.", {"minLength": 1}),
        "ports": Field("Its ports; tfjob-port (2222 if there is none) is TensorFlow's."),
    },
    templates.TemplatePort: {
        "name": Field("Its name."),
        "containerPort": Field("Its number.", {"minimum": 1, "maximum": 65535}),
    },
}
