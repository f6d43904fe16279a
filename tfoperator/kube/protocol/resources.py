"""Describes resources, and their paths on the API server. The code is pure: building a path does no I/O."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

_DOT_SEGMENTS = frozenset((".", ".."))
_UNQUOTED_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")


def _quoted(name: str) -> str:
    """Return the text percent-encoded. Names that Kubernetes allows stay unchanged."""
    return name if _UNQUOTED_CHARACTERS.issuperset(name) else quote(name, safe="")


class Resource(msgspec.Struct, frozen=True):
    """One resource type of the Kubernetes API, for example pods in core/v1."""

    group: str  # "" is the core group
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of the objects of this resource, for example `v1` or `kubeflow.org/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of a subresource of the object.

        For a namespaced resource, an empty namespace means all namespaces. Namespace and name are percent-encoded. The
        values `.` and `..` raise ValueError, because a proxy may resolve them, and the path would then lead to
        another object.
        """
        if namespace in _DOT_SEGMENTS or name in _DOT_SEGMENTS:
            raise ValueError(f"{name if name in _DOT_SEGMENTS else namespace!r} is not a valid name of an object")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", _quoted(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_quoted(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PODS = Resource("", "v1", "Pod", "pods")
SERVICES = Resource("", "v1", "Service", "services")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
EVENTS = Resource("", "v1", "Event", "events")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
SECRETS = Resource("", "v1", "Secret", "secrets")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
)
