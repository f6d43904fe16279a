"""The subresources `scale`, `binding` and `eviction`.

`kubectl scale` and autoscalers read and write an `autoscaling/v1 Scale`, which has the number of replicas in the same
format for all kinds. The Scale is not stored: the server makes it from three values in the object. The resource type or
the CRD names the paths of these values. A change of the Scale is a change of the object, and all rules of the object
apply. Binding and eviction are actions on a pod. A client requests them by creating a subresource.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.kube.views.objects import timestamp
from tfoperator.local.apiserver.errors import StatusError, bad_request, conflict, invalid, invalid_value, required
from tfoperator.local.apiserver.members import Json, member_at
from tfoperator.local.apiserver.objects.metadata import check_identity
from tfoperator.local.apiserver.registry.deletion import DeleteOptions
from tfoperator.local.apiserver.registry.patch import Patcher
from tfoperator.local.apiserver.registry.registry import Registry
from tfoperator.local.apiserver.resource_types import PODS, ResourceType, ScalePaths
from tfoperator.local.apiserver.storage.store import StoredObject

SCALES = ResourceType("autoscaling", "v1", "Scale", "scales")
"""The type of the objects that the subresource `scale` reads and writes. There are no lists of this type."""

_INT32_MAX = 2**31 - 1
_COPIED_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class _Spec(msgspec.Struct):
    replicas: int | None = None


class _Scale(msgspec.Struct):
    """The fields that the server reads from a client's Scale. The server ignores the status of the Scale."""

    spec: _Spec | None = None


def scale_of(resource: ResourceType, stored: StoredObject) -> StoredObject:
    """Return the Scale of an object.

    Raises StatusError 500, as kube-apiserver does, if the object does not contain the number of replicas.
    """
    paths = _paths(resource)
    if member_at(stored.obj, paths.spec_replicas) is None:
        where = "." + ".".join(paths.spec_replicas)
        message = f'Internal error occurred: the spec replicas field "{where}" does not exist'
        raise StatusError(500, "InternalError", message)
    return _scale(stored, paths)


def rescaled(resource: ResourceType, current: StoredObject, change: Patcher, *, patch: bool) -> Json:
    """Return the object after `change` was applied to its Scale.

    The result is a new dictionary, which the caller must validate and store. `patch` means that the request is a PATCH.
    In a PATCH the UID is not a precondition. If the Scale lacks `spec.replicas`, the number of replicas is 0, as in Go.
    """
    paths = _paths(resource)
    scale = change(_scale(current, paths).copy())
    check_identity(SCALES, current.metadata.get("namespace", ""), current.metadata["name"], scale)
    metadata = scale["metadata"]
    try:
        spec = msgspec.convert(scale, _Scale).spec or _Spec()
    except msgspec.ValidationError as error:
        raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {error}') from error
    replicas = spec.replicas or 0
    if replicas > _INT32_MAX:
        raise bad_request(f'Scale in version "v1" cannot be handled as a Scale: {replicas} is not an int32')
    if replicas < 0 and not resource.custom:  # for a custom resource, the validation of the object finds it
        problem = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(SCALES, current.metadata["name"], [problem])
    new = current.copy()
    _put(new, paths.spec_replicas, replicas)
    if metadata.get("resourceVersion"):
        new["metadata"]["resourceVersion"] = metadata["resourceVersion"]
    if metadata.get("uid") and not patch:
        new["metadata"]["uid"] = metadata["uid"]
    return new


def _paths(resource: ResourceType) -> ScalePaths:
    assert resource.scale is not None, f"{resource.qualified} has no scale subresource"
    return resource.scale


def _scale(stored: StoredObject, paths: ScalePaths) -> StoredObject:
    replicas = member_at(stored.obj, paths.spec_replicas)
    selector = member_at(stored.obj, paths.selector) if paths.selector else None
    status: Json = {"replicas": member_at(stored.obj, paths.status_replicas) or 0}
    if selector:
        status["selector"] = selector if isinstance(selector, str) else selector_text(selector)
    scale = {
        "kind": SCALES.kind,
        "apiVersion": SCALES.api_version,
        "metadata": {name: stored.metadata[name] for name in _COPIED_METADATA if name in stored.metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }
    return StoredObject(stored.key, scale, stored.revision)


def _put(obj: Json, path: tuple[str, ...], value: int) -> None:
    *parents, last = path
    for part in parents:
        if not isinstance(obj.get(part), dict):
            obj[part] = {}
        obj = obj[part]
    obj[last] = value


def selector_text(selector: Json) -> str:
    """Return a LabelSelector as the text of a query parameter, sorted by key, in kube-apiserver's format."""
    terms = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        texts = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        terms.append((key, texts.get(operator, key)))
    return ",".join(text for _, text in sorted(terms))


def bind(registry: Registry, namespace: str, name: str, binding: Json, now: datetime) -> None:
    """Bind a pod to a node, as a scheduler requests.

    If `name` is "", the body contains the name. Raises StatusError 409 if the pod already has a node, is being deleted,
    or has another UID than the body. Raises 422 if the body names no node, and 404 if there is no such pod.
    """
    metadata = binding.get("metadata") if isinstance(binding.get("metadata"), dict) else {}
    target = binding.get("target") if isinstance(binding.get("target"), dict) else {}
    assert isinstance(metadata, dict)
    assert isinstance(target, dict)
    name = name or str(metadata.get("name") or "")
    if not target.get("name"):
        raise invalid(PODS, name, [required("target.name")])
    current = registry.get(PODS, namespace, name)
    if metadata.get("uid") not in (None, "", current.metadata["uid"]):
        raise conflict(PODS, name, f"Precondition failed: UID in precondition: {metadata['uid']}")
    pod = current.copy()
    if pod["metadata"].get("deletionTimestamp"):
        raise conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict(PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    pod["spec"]["nodeName"] = target["name"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(now),
    }
    registry.finalize(PODS, current, _with_condition(pod, scheduled))


def evict(registry: Registry, namespace: str, name: str, eviction: Json, now: datetime) -> None:
    """Delete a pod by an eviction.

    The pod's condition `DisruptionTarget` contains the reason. This server has no disruption budgets, so it never
    refuses an eviction because of a budget.
    """
    try:
        options = msgspec.convert(eviction.get("deleteOptions") or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"couldn't read the Eviction: {error}") from error
    current = registry.get(PODS, namespace, name)
    if not options.dry_run and current.copy().get("status", {}).get("phase") not in ("Succeeded", "Failed"):
        disrupted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(now),
        }
        registry.finalize(PODS, current, _with_condition(current.copy(), disrupted))
    registry.delete(PODS, namespace, name, options)


def _with_condition(pod: Json, condition: Json) -> Json:
    """Set a condition in the pod, in place, and return the pod. A present condition of the same type is replaced."""
    status = pod.setdefault("status", {})
    others = [other for other in status.get("conditions") or () if other.get("type") != condition["type"]]
    status["conditions"] = [*others, condition]
    return pod
