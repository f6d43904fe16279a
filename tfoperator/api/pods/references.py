"""The ConfigMaps, Secrets, volume claims and service accounts that a pod needs before its containers start. Pure.

Objects that Kubernetes itself creates in every namespace are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_ROOT_CERTIFICATES = "kube-root-ca.crt"
"""The ConfigMap that every namespace has."""

SERVICE_ACCOUNT = "ServiceAccount"
_DEFAULT_ACCOUNT = "default"
"""The service account that every namespace has."""

_SOURCES = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("secret", "Secret", "name"),  # a source of a projected volume
    ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
)
_VALUES = (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret"))
_ENVIRONMENTS = (("configMapRef", "ConfigMap"), ("secretRef", "Secret"))


class Reference(msgspec.Struct, frozen=True):
    """An object that a field of a pod (`volumes[0].configMap.name`) names, and without which the pod can't start."""

    kind: str
    name: str
    field: str

    def __str__(self) -> str:
        """Return the object's kind and name, as in `ConfigMap settings`."""
        return f"{self.kind} {self.name}"


def references_of_volumes(pod: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects that the volumes of a pod's spec need; leave out objects that are marked as optional."""
    for number, volume in enumerate(_dicts(pod.get("volumes"))):
        path = f"volumes[{number}]"
        sources = [(path, volume)]
        for position, source in enumerate(_dicts(_dict(volume.get("projected")).get("sources"))):
            sources.append((f"{path}.projected.sources[{position}]", source))
        for where, source in sources:
            for member, kind, key in _SOURCES:
                yield from _named(kind, _dict(source.get(member)), key, f"{where}.{member}")


def references_of_containers(pod: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the objects from which the containers of a pod take environment variables, without optional objects."""
    for group in ("initContainers", "containers"):
        for number, container in enumerate(_dicts(pod.get(group))):
            path = f"{group}[{number}]"
            for position, variable in enumerate(_dicts(container.get("env"))):
                source = _dict(variable.get("valueFrom"))
                for member, kind in _VALUES:
                    where = f"{path}.env[{position}].valueFrom.{member}"
                    yield from _named(kind, _dict(source.get(member)), "name", where)
            for position, source in enumerate(_dicts(container.get("envFrom"))):
                for member, kind in _ENVIRONMENTS:
                    yield from _named(kind, _dict(source.get(member)), "name", f"{path}.envFrom[{position}].{member}")


def references_of_account(pod: Mapping[str, Any]) -> Iterator[Reference]:
    """Yield the service account of a pod's spec, unless it is the account that every namespace has."""
    name = pod.get("serviceAccountName") or pod.get("serviceAccount")
    if isinstance(name, str) and name and name != _DEFAULT_ACCOUNT:
        yield Reference(SERVICE_ACCOUNT, name, "serviceAccountName")


def _named(kind: str, source: Mapping[str, Any], key: str, path: str) -> Iterator[Reference]:
    name = source.get(key)
    if isinstance(name, str) and name and source.get("optional") is not True and name != _ROOT_CERTIFICATES:
        yield Reference(kind, name, f"{path}.{key}")


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [item if isinstance(item, dict) else {} for item in value] if isinstance(value, list) else []
