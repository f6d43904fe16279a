"""The PodGroups of both kinds of gang schedulers, as the API servers of plans serve them.

The fields are the fields of the schedulers' own CRDs that the operator writes or a scheduler answers with. Schedulers
don't run beside a plan (`attachments` simulates them), so these fields are enough, and Go modules are not needed.
"""

from __future__ import annotations

from typing import Any

from tfoperator.kube.protocol.resources import Resource

Json = dict[str, Any]

_POD_GROUPS = {
    "volcano": Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
    "coscheduler": Resource("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups"),
    "kubernetes": Resource("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups"),
}

_AMOUNT = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_SPEC: Json = {
    "type": "object",
    "properties": {
        "minMember": {"type": "integer", "format": "int32"},
        "minResources": {"type": "object", "additionalProperties": _AMOUNT},
        "queue": {"type": "string"},
        "priorityClassName": {"type": "string"},
        "scheduleTimeoutSeconds": {"type": "integer", "format": "int32"},
    },
}
OPEN: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""The schema of whatever there is."""


def pod_groups_of(gang: str) -> Resource:
    """The PodGroups of a gang scheduler: one of `GANG_SCHEDULERS`, or Kubernetes' own."""
    return _POD_GROUPS[gang]


def pod_group_crds() -> list[Json]:
    """The CRDs of the PodGroups that are not Kubernetes' own."""
    added = (resource for name, resource in _POD_GROUPS.items() if name != "kubernetes")
    return [crd_of(resource, {"spec": _SPEC, "status": OPEN}) for resource in added]


def crd_of(resource: Resource, properties: Json) -> Json:
    """A CRD by which a server serves a kind with these properties in one version, with a status of its own."""
    schema = {"type": "object", "properties": properties}
    version = {"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    singular = resource.kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": singular,
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [version | {"subresources": {"status": {}}}],
        },
    }


PRIORITY_CLASSES_CRD = crd_of(
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False),
    {"value": {"type": "integer"}, "globalDefault": {"type": "boolean"}},
)
"""Stands in for the built-in PriorityClasses on a server that has none."""

KUBERNETES_POD_GROUPS_CRD = crd_of(_POD_GROUPS["kubernetes"], {"spec": OPEN, "status": OPEN})
"""Stands in for the built-in PodGroups."""
