"""The resource types of the server, as data: names, scope, and the general rules that apply to each type.

The other differences between kinds (defaults, validation, grace period) are in `objects.strategies`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.kube.protocol.resources import Resource

_READING = frozenset({"get", "list", "watch"})


class ScalePaths(msgspec.Struct, frozen=True):
    """The paths of the scale subresource's values in an object. `selector` is empty if the object has no selector.

    The selector is a text, as CRDs require, or a LabelSelector, as in Deployments.
    """

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


class ResourceType(Resource, frozen=True):
    """One resource type.

    - `generation`: metadata.generation counts the changes of all members but metadata and status.
    - `custom`: a CRD defines the type. Custom types have no strategic merge patch, and a write to /status changes only
      the status.
    - `unconditional_update`: a PUT may lack the resourceVersion.
    - `returns_deleted`: the response to a DELETE is the object, and not a Status.
    - `delete_collection`: one request can delete all objects of a namespace, or a selection of them.
    - `verbs`: the verbs that clients may use. If it is empty, clients may use all verbs.
    - `fields`: the paths that field selectors may use, in addition to metadata.name and metadata.namespace.
    """

    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    generation: bool = False
    custom: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    delete_collection: bool = True
    verbs: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    scale: ScalePaths | None = None

    @property
    def singular(self) -> str:
        """The kind in lower case. kubectl accepts this name, too, as in `kubectl get pod`."""
        return self.kind.lower()

    @property
    def qualified(self) -> str:
        """`plural.group`, as in messages. In the core group, only the plural."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def read_only(self) -> bool:
        """Whether clients may only read objects of this type."""
        return bool(self.verbs) and set(self.verbs) <= _READING

    def key(self, namespace: str, name: str) -> str:
        """Return an object's key in the store."""
        return f"{namespace}/{name}" if self.namespaced else name


_POD_FIELDS = """
    spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName status.phase status.podIP
    status.nominatedNodeName
"""
_EVENT_FIELDS = """
    involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion
    involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source type
"""


_NEWER_EVENT_FIELDS = """
    regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion regarding.resourceVersion
    regarding.fieldPath reason reportingController type
"""


def _core(kind: str, plural: str, *short_names: str, fields: str = "", **rules: Any) -> ResourceType:
    return ResourceType("", "v1", kind, plural, short_names=short_names, fields=tuple(fields.split()), **rules)


PODS = _core(
    "Pod", "pods", "po", fields=_POD_FIELDS, categories=("all",), generation=True, returns_deleted=True,
    subresources=("attach", "binding", "eviction", "exec", "log", "portforward", "status"),
)  # fmt: skip
SERVICES = _core(
    "Service", "services", "svc", fields="spec.clusterIP spec.type", categories=("all",), returns_deleted=True,
    subresources=("status",),
)  # fmt: skip
EVENTS = _core("Event", "events", "ev", fields=_EVENT_FIELDS)
NEWER_EVENTS = ResourceType(
    "events.k8s.io", "v1", "Event", "events", short_names=("ev",), fields=tuple(_NEWER_EVENT_FIELDS.split())
)
"""The same events as `EVENTS`, with newer names of their fields (see `objects.events`)."""
NAMESPACES = _core(
    "Namespace", "namespaces", "ns", fields="status.phase", namespaced=False, returns_deleted=True,
    delete_collection=False, subresources=("finalize", "status"),
)  # fmt: skip
NODES = _core("Node", "nodes", "no", fields="spec.unschedulable", namespaced=False, subresources=("status",))
CONFIG_MAPS = _core("ConfigMap", "configmaps", "cm")
SECRETS = _core("Secret", "secrets", fields="type")
SERVICE_ACCOUNTS = _core("ServiceAccount", "serviceaccounts", "sa", returns_deleted=True, subresources=("token",))
CLAIMS = _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", returns_deleted=True, subresources=("status",))
LEASES = ResourceType("coordination.k8s.io", "v1", "Lease", "leases", unconditional_update=False)
DEPLOYMENTS = ResourceType(
    "apps", "v1", "Deployment", "deployments", short_names=("deploy",), categories=("all",), generation=True,
    subresources=("scale", "status"),
    scale=ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector")),
)  # fmt: skip
PRIORITY_CLASSES = ResourceType(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",),
    generation=True,
)  # fmt: skip
CRDS = ResourceType(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False,
    short_names=("crd", "crds"), categories=("api-extensions",), generation=True,
    verbs=("get", "list", "watch"), subresources=("status",),
)  # fmt: skip
"""The definitions of the custom types that the server serves. Clients read the definitions to find the fields of a
type.
"""


def _empty(group: str, version: str, kind: str, plural: str, *short_names: str, **rules: Any) -> ResourceType:
    return ResourceType(group, version, kind, plural, short_names=short_names, verbs=("get", "list", "watch"), **rules)


_ALL = ("all",)
EMPTY = (
    _empty("", "v1", "PersistentVolume", "persistentvolumes", "pv", namespaced=False),
    _empty("apps", "v1", "DaemonSet", "daemonsets", "ds", categories=_ALL),
    _empty("apps", "v1", "ReplicaSet", "replicasets", "rs", categories=_ALL),
    _empty("apps", "v1", "StatefulSet", "statefulsets", "sts", categories=_ALL),
    _empty("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", categories=_ALL),
    _empty("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", categories=_ALL),
    _empty("batch", "v1", "CronJob", "cronjobs", "cj", categories=_ALL),
    _empty("batch", "v1", "Job", "jobs", categories=_ALL),
    _empty("networking.k8s.io", "v1", "Ingress", "ingresses", "ing"),
    _empty("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "netpol"),
    _empty("storage.k8s.io", "v1", "StorageClass", "storageclasses", "sc", namespaced=False),
)
"""Kinds that the server serves only as empty lists: clients can't create objects of these kinds. The first screens of
k9s and Headlamp request the lists, and show an error if the cluster does not serve such a kind.
"""

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
    NEWER_EVENTS,
    PRIORITY_CLASSES,
    CRDS,
    *EMPTY,
)
"""Every built-in type, in the order of discovery. Custom types come from CRDs (`custom_resources`)."""

POD_METRICS = ResourceType("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", verbs=("get", "list"))
NODE_METRICS = ResourceType(
    "metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", namespaced=False, verbs=("get", "list")
)
METRICS = (NODE_METRICS, POD_METRICS)
"""Types whose objects are measured and not stored. The server serves them if it has a source of measurements."""
