"""Binding and eviction: the two things that are done to a pod by creating something under it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tfoperator.kube.objects import timestamp
from tfoperator.local.apiserver.errors import bad_request, conflict, invalid, required
from tfoperator.local.apiserver.registry.deletion import DeleteOptions
from tfoperator.local.apiserver.registry.registry import Registry
from tfoperator.local.apiserver.resource_types import PODS

_Dict = dict[str, Any]


def bind(registry: Registry, namespace: str, name: str, binding: _Dict, now: datetime) -> None:
    """Put a pod on a node, as a scheduler asks for it; a pod is bound once. `name` may come from the body alone."""
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
    conditions = [c for c in pod["status"].get("conditions") or () if c.get("type") != "PodScheduled"]
    pod["status"]["conditions"] = [*conditions, scheduled]
    registry.finalize(PODS, current, pod)


def evict(registry: Registry, namespace: str, name: str, eviction: _Dict) -> None:
    """Delete a pod at the request of another than its owner; there are no disruption budgets here."""
    try:
        options = msgspec.convert(eviction.get("deleteOptions") or {}, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"couldn't read the Eviction: {error}") from error
    registry.delete(PODS, namespace, name, options)
