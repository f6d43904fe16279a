"""The JSON types of the built-in kinds, for the fields that the server or its clients read.

The server checks the types in each body first. If a type is wrong, the server responds with a 400 that names the field.
All later code relies on the types. Fields that the server or its clients do not read are not listed here, and are
stored unchanged. A null has the same meaning as an absent field, as in Go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.api.fields.problems import Problem
from tfoperator.api.fields.structure import drop_nulls, type_problems
from tfoperator.api.pods.types import fill_nulls, wrong_types
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.kube.views.pod_spec import FullPodSpec, FullPodTemplate
from tfoperator.kube.views.pod_status import PodStatus
from tfoperator.local.apiserver.errors import bad_request
from tfoperator.local.apiserver.members import has_only_int64
from tfoperator.local.apiserver.objects.config_data import encoding_problems
from tfoperator.local.apiserver.resource_types import NEWER_EVENTS, ResourceType

_MAX_PROBLEMS = 10
"""The maximum number of wrong fields that one response names."""

_Strings = list[str] | None
_StringMap = dict[str, str] | None


class _Typed(msgspec.Struct, rename="camel"):
    """The base of all types in this module. In JSON, the names of the fields are in camelCase."""


class _Object(_Typed):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta | None = None


class _Pod(_Object):
    spec: FullPodSpec | None = None
    status: PodStatus | None = None


class _ServicePort(_Typed):
    name: str | None = None
    port: int | None = None
    target_port: int | str | None = None
    protocol: str | None = None


class _ServiceSpec(_Typed):
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    type: str | None = None
    selector: _StringMap = None
    ports: list[_ServicePort] | None = None
    publish_not_ready_addresses: bool | None = None


class _Service(_Object):
    spec: _ServiceSpec | None = None
    status: dict[str, Any] | None = None


class _LabelSelector(_Typed):
    match_labels: _StringMap = None
    match_expressions: list[dict[str, Any]] | None = None


class _DeploymentStrategy(_Typed):
    type: str | None = None
    rolling_update: dict[str, Any] | None = None


class _DeploymentSpec(_Typed):
    replicas: int | None = None
    selector: _LabelSelector | None = None
    template: FullPodTemplate | None = None
    strategy: _DeploymentStrategy | None = None
    paused: bool | None = None


class _DeploymentStatus(_Typed):
    observed_generation: int | None = None
    replicas: int | None = None
    updated_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    unavailable_replicas: int | None = None
    conditions: list[dict[str, Any]] | None = None


class _Deployment(_Object):
    spec: _DeploymentSpec | None = None
    status: _DeploymentStatus | None = None


class _ConfigMap(_Object):
    data: _StringMap = None
    binary_data: _StringMap = None
    immutable: bool | None = None


class _Secret(_Object):
    data: _StringMap = None
    string_data: _StringMap = None
    type: str | None = None
    immutable: bool | None = None


class _Event(_Object):
    involved_object: dict[str, str] | None = None
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    count: int | None = None
    source: dict[str, str] | None = None


class _NewerEvent(_Object):
    regarding: dict[str, str] | None = None
    reason: str | None = None
    note: str | None = None
    type: str | None = None
    action: str | None = None
    reporting_controller: str | None = None
    reporting_instance: str | None = None
    event_time: str | None = None
    series: dict[str, Any] | None = None
    deprecated_count: int | None = None
    deprecated_source: dict[str, str] | None = None


class _NamespaceSpec(_Typed):
    finalizers: _Strings = None


class _Namespace(_Object):
    spec: _NamespaceSpec | None = None
    status: dict[str, Any] | None = None


class _LeaseSpec(_Typed):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(_Object):
    spec: _LeaseSpec | None = None


class _Node(_Object):
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


_TYPES: Mapping[str, type[_Object]] = {cls.__name__.removeprefix("_"): cls for cls in _Object.__subclasses__()}
"""The types by kind. A class has the name of its kind, after an underscore."""


def check_types(resource: ResourceType, obj: dict[str, Any]) -> None:
    """Raise StatusError 400 if fields have the wrong JSON type, or if bytes are not base64.

    For custom kinds, check only metadata and the size of integers. Nulls that the types don't allow are removed from
    `obj`, so later code and clients never get them.
    """
    if not has_only_int64(obj):
        raise bad_request(f"the {resource.kind} provided can't be handled: it holds a number of more than 64 bits")
    types = _types_of(resource)
    _check_pod_fields(resource, obj)
    try:
        msgspec.convert(obj, types)
    except msgspec.ValidationError:
        # msgspec names only the first wrong type, and counts a null as a wrong type.
        _refuse_wrong(resource, type_problems(obj, types))
        part, kind, _ = pod_part(resource.kind, obj)
        fill_nulls(part, kind)
        without_nulls = drop_nulls(obj, types)
        obj.clear()
        obj.update(without_nulls)
    if not resource.custom:
        _refuse_wrong(resource, list(encoding_problems(resource.kind, obj)))


def _types_of(resource: ResourceType) -> type[_Object]:
    if resource == NEWER_EVENTS:
        return _NewerEvent
    return _Object if resource.custom else _TYPES.get(resource.kind, _Object)


def pod_part(kind: str, obj: Mapping[str, Any]) -> tuple[object, str, str]:
    """Return the part of a built-in object that describes a pod, the name of the part's type, and the part's path.

    For other kinds, return None and two empty texts.
    """
    if kind == "Pod":
        return obj.get("spec"), "PodSpec", "spec"
    spec = obj.get("spec")
    if kind == "Deployment" and isinstance(spec, dict):
        return spec.get("template"), "PodTemplateSpec", "spec.template"
    return None, "", ""


def _check_pod_fields(resource: ResourceType, obj: Mapping[str, Any]) -> None:
    value, kind, path = pod_part(resource.kind, obj)
    if value is not None and not resource.custom:
        _refuse_wrong(resource, list(wrong_types(value, kind, path)))


def _refuse_wrong(resource: ResourceType, problems: list[Problem]) -> None:
    if problems:
        text = "; ".join(map(str, problems[:_MAX_PROBLEMS]))
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {text}'
        )
