"""The lists that a strategic merge patch merges in objects of the built-in kinds, and the merge key of each list.

The lists and their keys come from the tags of the Go types. The tags are `patchStrategy:"merge"` and `patchMergeKey` in
`core/v1`, `apps/v1` and `meta/v1` of Kubernetes 1.37. Every other list is replaced as a whole, as Kubernetes does with
"atomic" lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

SCALARS: Final = ""
"""This value takes the place of a merge key if the list is a set of plain values, for example `metadata.finalizers`."""

_CONTAINER = {
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
}
_POD_SPEC = {
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "evictionResponders": "name",
    **{
        path: key
        for field in ("containers", "initContainers", "ephemeralContainers")
        for path, key in [(field, "name"), *((f"{field}.{name}", key) for name, key in _CONTAINER.items())]
    },
}
_CONTAINER_STATUS = {"volumeMounts": "mountPath", "allocatedResourcesStatus": "name"}
_METADATA = {"metadata.ownerReferences": "uid", "metadata.finalizers": SCALARS}
_CONDITIONS = {"status.conditions": "type"}
_KINDS: dict[str, dict[str, str]] = {
    "Pod": {
        **{f"spec.{path}": key for path, key in _POD_SPEC.items()},
        **{
            f"status.{field}.{name}": key
            for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
            for name, key in _CONTAINER_STATUS.items()
        },
        **_CONDITIONS,
        "status.podIPs": "ip",
        "status.hostIPs": "ip",
        "status.resourceClaimStatuses": "name",
        "status.nodeAllocatableResourceClaimStatuses": "resourceClaimName",
        "status.nodeAllocatableResourceClaimStatuses.mapping": "name",
        "status.nodeAllocatableResourceClaimStatuses.overhead": "name",
    },
    "Deployment": {**{f"spec.template.spec.{path}": key for path, key in _POD_SPEC.items()}, **_CONDITIONS},
    "Service": {"spec.ports": "port", **_CONDITIONS},
    "Namespace": _CONDITIONS,
    "Node": {"status.addresses": "type", "spec.podCIDRs": SCALARS, **_CONDITIONS},
    "ServiceAccount": {"secrets": "name"},
}

ONE_OF: Final = frozenset({"spec.volumes", "spec.resourceClaims", *(f"{p}.env" for p in ("spec.containers",
    "spec.initContainers", "spec.ephemeralContainers"))})  # fmt: skip
"""Lists of a pod in which an item has a name and exactly one of several alternative fields.

For example, a volume has either `emptyDir` or `hostPath`. A patch that sets `hostPath` must remove `emptyDir`. The
directive `$retainKeys` does this.
"""


@cache
def merge_keys(kind: str) -> Mapping[str, str]:
    """Return the merge key of each list of a kind, by the path of the list: `name` for `spec.containers.env`.

    The value for a list of plain values is SCALARS. For unknown kinds, return only the lists of metadata.
    """
    return {**_METADATA, **_KINDS.get(kind, {})}
