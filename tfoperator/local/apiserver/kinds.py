"""The resource types that the server knows, as data: names, scope and which general rules apply to each.

Everything that differs between kinds and is not plain data (defaults, validation, grace) is in `strategies`.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "BUILTIN",
    "DEPLOYMENTS",
    "EVENTS",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SERVICES",
    "ResourceType",
    "ScalePaths",
]


class ScalePaths(msgspec.Struct, frozen=True):
    """Where a custom resource keeps what its scale subresource shows; `selector` is empty if it has none."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


class ResourceType(msgspec.Struct, frozen=True):
    """One resource type. `fields` are the paths that field selectors may use besides name and namespace.

    `custom` marks a type defined by a CRD: no strategic merge patch, /status changes nothing but the status.
    `generation` says that metadata.generation counts changes of anything but metadata and status.
    `unconditional_update` allows a PUT without resourceVersion. `returns_deleted` answers a DELETE with the object
    instead of a Status. `delete_collection` allows the whole collection, or a selection of it, to be deleted at once.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    generation: bool = False
    custom: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    delete_collection: bool = True
    fields: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    scale: ScalePaths | None = None

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The lower-case kind, by which kubectl also finds it."""
        return self.kind.lower()

    @property
    def qualified(self) -> str:
        """`plural.group`, as messages name it; the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def key(self, namespace: str, name: str) -> str:
        """Where an object lies in the store."""
        return f"{namespace}/{name}" if self.namespaced else name


PODS = ResourceType(
    "",
    "v1",
    "Pod",
    "pods",
    short_names=("po",),
    categories=("all",),
    has_status=True,
    generation=True,
    returns_deleted=True,
    fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    subresources=("binding", "eviction", "log", "status"),
)
SERVICES = ResourceType(
    "",
    "v1",
    "Service",
    "services",
    short_names=("svc",),
    categories=("all",),
    has_status=True,
    returns_deleted=True,
    fields=("spec.clusterIP", "spec.type"),
    subresources=("status",),
)
EVENTS = ResourceType(
    "",
    "v1",
    "Event",
    "events",
    short_names=("ev",),
    fields=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
)
NAMESPACES = ResourceType(
    "",
    "v1",
    "Namespace",
    "namespaces",
    namespaced=False,
    short_names=("ns",),
    has_status=True,
    returns_deleted=True,
    delete_collection=False,
    fields=("status.phase",),
    subresources=("finalize", "status"),
)
NODES = ResourceType(
    "",
    "v1",
    "Node",
    "nodes",
    namespaced=False,
    short_names=("no",),
    has_status=True,
    fields=("spec.unschedulable",),
    subresources=("status",),
)
CONFIG_MAPS = ResourceType("", "v1", "ConfigMap", "configmaps", short_names=("cm",))
SECRETS = ResourceType("", "v1", "Secret", "secrets", fields=("type",))
SERVICE_ACCOUNTS = ResourceType(
    "", "v1", "ServiceAccount", "serviceaccounts", short_names=("sa",), returns_deleted=True
)
CLAIMS = ResourceType(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    short_names=("pvc",),
    has_status=True,
    returns_deleted=True,
    subresources=("status",),
)
LEASES = ResourceType("coordination.k8s.io", "v1", "Lease", "leases", unconditional_update=False)
DEPLOYMENTS = ResourceType(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    short_names=("deploy",),
    categories=("all",),
    has_status=True,
    generation=True,
    subresources=("status",),
)

BUILTIN = (
    PODS,
    SERVICES,
    EVENTS,
    NAMESPACES,
    NODES,
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    CLAIMS,
    DEPLOYMENTS,
    LEASES,
)
"""Every built-in type, in the order of discovery. Custom ones come from CRDs (`custom_resources`)."""
