"""Chooses which objects `cache_lag` looks up, and interprets the answers. No I/O."""

from __future__ import annotations

from tfoperator.controller.plan.values.actions import Create, Plan
from tfoperator.kube.protocol.errors import KubeError, NotFoundError
from tfoperator.kube.protocol.verbs import Answer
from tfoperator.kube.views.objects import ObjectMeta


def found_metadata(found: Answer) -> ObjectMeta | None:
    """Return the object that a lookup found; return None if the object does not exist.

    Raises the lookup's error (KubeError) if the lookup failed for another reason.
    """
    if isinstance(found, NotFoundError):
        return None
    if isinstance(found, KubeError):
        raise found
    return found if isinstance(found, ObjectMeta) else None


def created_pods(plan: Plan) -> list[str]:
    """Return the names of the pods that the plan creates."""
    return [action.name for action in plan.actions if isinstance(action, Create) and action.kind == "pods"]


def differs(pod: ObjectMeta, now: ObjectMeta | None) -> bool:
    """Return whether a pod is not what the cache shows: it has changed, or is gone, or another pod has its name."""
    return now is None or (now.uid, now.resource_version) != (pod.uid, pod.resource_version)
