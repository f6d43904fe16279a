"""Discovery: the groups, versions and resources of the server, in the classic and the aggregated form.

kubectl requests the aggregated form (one request for everything); other clients read the classic documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfoperator.api.replicas.names import EMBEDDED_RELEASE
from tfoperator.local.apiserver.members import Json
from tfoperator.local.apiserver.resource_types import ResourceType

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_SUBRESOURCE_VERBS = {
    "scale": ("get", "patch", "update"),
    "status": ("get", "patch", "update"),
    "finalize": ("update",),
    "log": ("get",),
    "attach": ("create", "get"),
    "binding": ("create",),
    "exec": ("create", "get"),
    "portforward": ("create", "get"),
    "eviction": ("create",),
    "token": ("create",),
}
_SUBRESOURCE_KINDS = {
    "attach": ("", "v1", "PodAttachOptions"),
    "binding": ("", "v1", "Binding"),
    "exec": ("", "v1", "PodExecOptions"),
    "portforward": ("", "v1", "PodPortForwardOptions"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": EMBEDDED_RELEASE,
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""The response of /version. The response names the Kubernetes release that this server imitates. Clients use only
features that this release has.
"""

_AGGREGATED_KIND = "APIGroupDiscoveryList"


class Discovery:
    """The discovery documents of a fixed set of resources."""

    def __init__(self, resources: Sequence[ResourceType]) -> None:
        """Keep `resources`, which the documents list in this order."""
        self._by_group: dict[str, dict[str, list[ResourceType]]] = {}
        for resource in resources:
            self._by_group.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)

    def document(self, path: str, accept: str) -> tuple[Json, str] | None:
        """Return the document at a path, and the document's content type. Return None if there is no such document.

        The Accept header selects the classic or the aggregated form of the document.
        """
        wants_aggregated = f"as={_AGGREGATED_KIND}" in accept
        parts = path.strip("/").split("/")
        match parts:
            case ["api"] if wants_aggregated:
                return self._aggregated([""], accept)
            case ["apis"] if wants_aggregated:
                return self._aggregated(self._groups(), accept)
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}, _JSON
            case ["apis"]:
                groups = [self._group(group) for group in self._groups()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}, _JSON
            case ["apis", group] if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}, _JSON
            case ["api", version] if version in self._by_group.get("", {}):
                return self._resource_list("", version), _JSON
            case ["apis", group, version] if version in self._by_group.get(group, {}) and group:
                return self._resource_list(group, version), _JSON
        return None

    def paths(self) -> list[str]:
        """Return all discovery paths, which the response to `GET /` lists."""
        grouped = [f"/apis/{group}/{version}" for group in self._groups() for version in self._by_group[group]]
        return ["/api", "/api/v1", "/apis", *(f"/apis/{group}" for group in self._groups()), *grouped]

    def _groups(self) -> list[str]:
        return [group for group in self._by_group if group]

    def _group(self, group: str) -> Json:
        versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in self._by_group[group]]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> Json:
        listed: list[Json] = []
        for resource in self._by_group[group][version]:
            common = {"namespaced": resource.namespaced, "kind": resource.kind}
            names = {"name": resource.plural, "singularName": resource.singular}
            listed.append({**names, **common, "verbs": _verbs(resource), **_other_names(resource)})
            for subresource in resource.subresources:
                kind = _kind_of(resource, subresource)
                names = {"name": f"{resource.plural}/{subresource}", "singularName": ""}
                sub = {**names, **common, "kind": kind["kind"], "verbs": _subresource_verbs(resource, subresource)}
                elsewhere = (kind["group"], kind["version"]) != (group, version)
                listed.append({**sub, "group": kind["group"], "version": kind["version"]} if elsewhere else sub)
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}

    def _aggregated(self, groups: Iterable[str], accept: str) -> tuple[Json, str]:
        version = "v2" if "v=v2;" in accept + ";" else "v2beta1"
        items = [
            {
                "metadata": {"name": group, "creationTimestamp": None},
                "versions": [
                    {
                        "version": v,
                        "freshness": "Current",
                        "resources": [_aggregated_resource(resource) for resource in resources],
                    }
                    for v, resources in self._by_group[group].items()
                ],
            }
            for group in groups
        ]
        document = {
            "kind": _AGGREGATED_KIND,
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }
        return document, f"application/json;g=apidiscovery.k8s.io;v={version};as={_AGGREGATED_KIND}"


_JSON = "application/json"


def _verbs(resource: ResourceType) -> list[str]:
    return [*resource.verbs] or [verb for verb in _VERBS if verb != "deletecollection" or resource.delete_collection]


def _subresource_verbs(resource: ResourceType, subresource: str) -> list[str]:
    return [verb for verb in _SUBRESOURCE_VERBS[subresource] if verb == "get" or not resource.read_only]


def _other_names(resource: ResourceType) -> Json:
    named = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {member: names for member, names in named.items() if names}


def _kind_of(resource: ResourceType, subresource: str = "") -> dict[str, str]:
    kind = _SUBRESOURCE_KINDS.get(subresource, (resource.group, resource.version, resource.kind))
    return dict(zip(("group", "version", "kind"), kind, strict=True))


def _aggregated_resource(resource: ResourceType) -> Json:
    return {
        "resource": resource.plural,
        "singularResource": resource.singular,
        "responseKind": _kind_of(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "verbs": _verbs(resource),
        "subresources": [
            {
                "subresource": subresource,
                "responseKind": _kind_of(resource, subresource),
                "verbs": _subresource_verbs(resource, subresource),
            }
            for subresource in resource.subresources
        ],
        **_other_names(resource),
    }
