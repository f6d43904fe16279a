"""The kinds of objects that jobs control: what they are called among ourselves, and the key they are awaited under."""

from __future__ import annotations

from typing import Literal

from tfoperator.expectations import ExpectationKey
from tfoperator.kube.resources import DEPLOYMENTS, PODS, SERVICES, Resource

__all__ = ["RESOURCES", "ChildKind", "expectation_key"]

ChildKind = Literal["pods", "services", "podgroups", "deployments"]
"""The kinds of objects that a job controls, spelled like their resources."""

RESOURCES: dict[ChildKind, Resource] = {"pods": PODS, "services": SERVICES, "deployments": DEPLOYMENTS}
"""Those whose resource is always the same; a PodGroup's is its gang scheduler's."""


def expectation_key(owner_uid: str, replica_type: str | None, kind: ChildKind) -> ExpectationKey:
    """The key under which objects of one replica type are awaited; `replica_type` in any case, empty if unknown."""
    return ExpectationKey(owner_uid, (replica_type or "").lower(), kind)
