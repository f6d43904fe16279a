"""The kinds of objects that the controller creates, changes and deletes."""

from __future__ import annotations

from typing import Literal

from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES, Resource

OwnedKind = Literal["pods", "services", "podgroups", "deployments"]
"""The kinds of objects that a job owns, spelled as the names of their resources."""

ObjectKind = OwnedKind | Literal["tfjobs"]
"""The kinds that a job owns, and the job itself: the operator deletes a job at the end of `ttlSecondsAfterFinished`."""

RESOURCES: dict[ObjectKind, Resource] = {
    "pods": PODS,
    "services": SERVICES,
    "deployments": DEPLOYMENTS,
    "tfjobs": TFJOBS,
}
"""The resource of each kind except PodGroups, whose resource depends on the gang scheduler."""

NOUNS: dict[ObjectKind, str] = {
    "pods": "pod",
    "services": "service",
    "podgroups": "PodGroup",
    "deployments": "deployment",
    "tfjobs": "TFJob",
}
"""The noun for one object of each kind in messages."""
