"""The JSON types of the built-in kinds, as far as the server or its clients read them.

Checking a body against these once, at the door, answers a wrong type with a 400 that says where it is, and lets all
code behind the door rely on types. Fields that nobody here reads are not listed and are stored as they came. A null
is the same as an absent field, as in Go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.api.structure import type_problems
from tfoperator.local.apiserver.errors import bad_request
from tfoperator.local.apiserver.kinds import ResourceType

__all__ = ["check_shape"]

_MAX_PROBLEMS = 10
"""How many wrong fields one answer names."""

_Strings = list[str] | None
_StringMap = dict[str, str] | None
_Quantities = dict[str, str | int | float] | None


class _Shape(msgspec.Struct, rename="camel"):
    """Base: camelCase on the wire."""


class _Owner(_Shape):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(_Shape):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: _StringMap = None
    annotations: _StringMap = None
    finalizers: _Strings = None
    owner_references: list[_Owner] | None = None


class _Object(_Shape):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata | None = None


class _EnvVar(_Shape):
    name: str | None = None
    value: str | None = None
    value_from: dict[str, Any] | None = None


class _ContainerPort(_Shape):
    name: str | None = None
    container_port: int | None = None
    protocol: str | None = None


class _VolumeMount(_Shape):
    name: str | None = None
    mount_path: str | None = None
    sub_path: str | None = None
    read_only: bool | None = None


class _Resources(_Shape):
    limits: _Quantities = None
    requests: _Quantities = None


class _Container(_Shape):
    name: str | None = None
    image: str | None = None
    command: _Strings = None
    args: _Strings = None
    working_dir: str | None = None
    env: list[_EnvVar] | None = None
    env_from: list[dict[str, Any]] | None = None
    ports: list[_ContainerPort] | None = None
    volume_mounts: list[_VolumeMount] | None = None
    resources: _Resources | None = None
    image_pull_policy: str | None = None


class _PodSpec(_Shape):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    volumes: list[dict[str, Any]] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_name: str | None = None
    node_selector: _StringMap = None
    scheduler_name: str | None = None
    service_account_name: str | None = None
    tolerations: list[dict[str, Any]] | None = None


class _PodStatus(_Shape):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[dict[str, Any]] | None = None
    container_statuses: list[dict[str, Any]] | None = None
    init_container_statuses: list[dict[str, Any]] | None = None


class _Pod(_Object):
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _ServicePort(_Shape):
    name: str | None = None
    port: int | None = None
    target_port: int | str | None = None
    protocol: str | None = None


class _ServiceSpec(_Shape):
    cluster_ip: str | None = msgspec.field(name="clusterIP", default=None)
    type: str | None = None
    selector: _StringMap = None
    ports: list[_ServicePort] | None = None


class _Service(_Object):
    spec: _ServiceSpec | None = None
    status: dict[str, Any] | None = None


class _TemplateMetadata(_Shape):
    labels: _StringMap = None
    annotations: _StringMap = None


class _PodTemplate(_Shape):
    metadata: _TemplateMetadata | None = None
    spec: _PodSpec | None = None


class _LabelSelector(_Shape):
    match_labels: _StringMap = None
    match_expressions: list[dict[str, Any]] | None = None


class _DeploymentStrategy(_Shape):
    type: str | None = None
    rolling_update: dict[str, Any] | None = None


class _DeploymentSpec(_Shape):
    replicas: int | None = None
    selector: _LabelSelector | None = None
    template: _PodTemplate | None = None
    strategy: _DeploymentStrategy | None = None
    paused: bool | None = None


class _DeploymentStatus(_Shape):
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


class _NamespaceSpec(_Shape):
    finalizers: _Strings = None


class _Namespace(_Object):
    spec: _NamespaceSpec | None = None
    status: dict[str, Any] | None = None


class _LeaseSpec(_Shape):
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


_SHAPES: Mapping[str, type[_Object]] = {
    "Pod": _Pod,
    "Service": _Service,
    "Deployment": _Deployment,
    "ConfigMap": _ConfigMap,
    "Secret": _Secret,
    "Event": _Event,
    "Namespace": _Namespace,
    "Lease": _Lease,
    "Node": _Node,
}


def check_shape(resource: ResourceType, obj: dict[str, Any]) -> None:
    """Raise StatusError 400 where fields have the wrong JSON type; of custom kinds only metadata is looked at."""
    shape = _Object if resource.custom else _SHAPES.get(resource.kind, _Object)
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        found = "; ".join(str(problem) for problem in type_problems(obj, shape)[:_MAX_PROBLEMS]) or str(error)
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {found}'
        ) from error
