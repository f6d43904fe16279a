"""The rules for environment variables, and for variables and files whose content is a field of the pod itself."""

from __future__ import annotations

import re
from collections.abc import Collection
from fractions import Fraction

from tfoperator.api.fields.quantity import parse_signed_quantity
from tfoperator.api.pods import name_rules
from tfoperator.api.pods.rules.faults import (
    Faults,
    Json,
    by_rule,
    choice,
    invalid,
    items,
    name,
    only_one,
    part,
    required,
    text,
)
from tfoperator.api.pods.rules.paths import no_backsteps

VARIABLE_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
"""The fields of a pod that a variable can contain."""

FILE_FIELDS = ("metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid")
"""The fields of a pod that a file can contain."""

_KNOWN_FIELDS = frozenset({*VARIABLE_FIELDS, *FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase"})
_SUBSCRIPTED = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTES = frozenset(Fraction(base) ** power for base in (1000, 1024) for power in range(7))
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def variable_faults(path: str, container: Json) -> Faults:
    """Yield the faults of `env` and `envFrom` of the container at `path`."""
    for position, variable in enumerate(items(container, "env")):
        at = f"{path}.env[{position}]"
        yield from name(f"{at}.name", text(variable, "name"), name_rules.environment_name)
        if variable.get("valueFrom") is not None:
            yield from _source_faults(f"{at}.valueFrom", variable["valueFrom"], bool(variable.get("value")))
    for position, source in enumerate(items(container, "envFrom")):
        yield from _all_keys_faults(f"{path}.envFrom", position, source)


def _source_faults(at: str, source: Json, has_value: bool) -> Faults:
    if source.get("fieldRef") is not None:
        yield from field_faults(f"{at}.fieldRef", source["fieldRef"], VARIABLE_FIELDS)
    if source.get("resourceFieldRef") is not None:
        yield from resource_field_faults(f"{at}.resourceFieldRef", source["resourceFieldRef"])
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if source.get(kind) is not None:
            yield from by_rule(f"{at}.{kind}.name", text(source[kind], "name"), name_rules.dns_subdomain)
            yield from name(f"{at}.{kind}.key", text(source[kind], "key"), name_rules.config_key)
    if source.get("fileKeyRef") is not None:
        yield from _file_key_faults(f"{at}.fileKeyRef", source["fileKeyRef"])
    kinds = only_one(source, _SOURCES)
    if not kinds:
        yield invalid(at, "", f"must have one of {', '.join(_SOURCES)}")
    elif has_value:
        yield invalid(at, "", "must not be set beside a value")
    elif len(kinds) > 1:
        yield invalid(at, "", f"must have a single source, not {' and '.join(kinds)}")


def _file_key_faults(at: str, reference: Json) -> Faults:
    yield from name(f"{at}.key", text(reference, "key"), name_rules.environment_name)
    yield from name(f"{at}.volumeName", text(reference, "volumeName"), name_rules.dns_label)
    if not text(reference, "path"):
        yield required(f"{at}.path")
    yield from no_backsteps(f"{at}.path", text(reference, "path"))


def _all_keys_faults(path: str, position: int, source: Json) -> Faults:
    at = f"{path}[{position}]"
    if text(source, "prefix"):
        yield from by_rule(f"{at}.prefix", source["prefix"], name_rules.environment_name)
    kinds = only_one(source, ("configMapRef", "secretRef"))
    for kind in kinds:
        yield from name(f"{at}.{kind}.name", text(source[kind], "name"), name_rules.dns_subdomain_prefix)
    if len(kinds) != 1:
        yield invalid(path, "", "must have one of configMapRef and secretRef in each item")


def field_faults(at: str, reference: Json, fields: Collection[str]) -> Faults:
    """Yield the faults of a reference to a field of the pod, which must be one of `fields`."""
    path = text(reference, "fieldPath")
    if not path:
        yield required(f"{at}.fieldPath")
        return
    if text(reference, "apiVersion", "v1") != "v1":
        yield invalid(f"{at}.fieldPath", path, "must be a field of the version v1")
        return
    if subscripted := _SUBSCRIPTED.fullmatch(path):
        owner, key = subscripted.groups()
        if owner not in ("metadata.annotations", "metadata.labels"):
            problem = "must not have a key in brackets, except after metadata.labels and metadata.annotations"
            yield invalid(f"{at}.fieldPath", path, problem)
            return
        yield from by_rule(at, key.lower() if owner == "metadata.annotations" else key, name_rules.qualified_name)
        return
    if path == "spec.host":
        path = "spec.nodeName"  # spec.host is an old name of this field
    if path not in _KNOWN_FIELDS:
        yield invalid(f"{at}.fieldPath", path, f"must be one of {', '.join(fields)}")
    else:
        yield from choice(f"{at}.fieldPath", path, tuple(fields))


def resource_field_faults(at: str, reference: Json, *, in_file: bool = False) -> Faults:
    """Yield the faults of a reference to a limit or request; for a volume's file it must also name the container."""
    resource = text(reference, "resource")
    if in_file and not text(reference, "containerName"):
        yield required(f"{at}.containerName")
    elif not resource:
        yield required(f"{at}.resource")
    elif not resource.startswith(_HUGE_PAGES):
        yield from choice(f"{at}.resource", resource, _RESOURCES)
    divisor = parse_signed_quantity(reference.get("divisor") or 0)
    allowed = frozenset((Fraction(1), Fraction(1, 1000))) if resource.endswith(".cpu") else _BYTES
    if divisor and divisor not in allowed and (resource in _RESOURCES or resource.startswith(_HUGE_PAGES)):
        units = "1 or 1m" if resource.endswith(".cpu") else "1, or a unit such as 1Mi or 1G"
        yield invalid(f"{at}.divisor", str(reference["divisor"]), f"must be {units}")


def file_volume_faults(spec: Json, path: str) -> Faults:
    """Yield the faults of variables that are read from a file (`fileKeyRef`): the file's volume must be an emptyDir."""
    volumes = {text(volume, "name"): volume for volume in items(spec, "volumes")}
    for group in ("initContainers", "containers"):
        for index, container in enumerate(items(spec, group)):
            for position, variable in enumerate(items(container, "env")):
                reference = part(variable, "valueFrom").get("fileKeyRef")
                if reference is None:
                    continue
                field = f"{path}.{group}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
                volume = volumes.get(text(reference, "volumeName"))
                if volume is None or "emptyDir" not in sources_of(volume):
                    yield invalid(field, text(reference, "volumeName"), "must be an emptyDir of the pod")


def sources_of(volume: Json) -> list[str]:
    """Return the kinds of a volume, such as `configMap`; for a volume without a kind, return emptyDir."""
    return [kind for kind, source in volume.items() if kind != "name" and source is not None] or ["emptyDir"]
