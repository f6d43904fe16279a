"""A trimmed view of Deployments, as in `tfoperator.kube.views.objects`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tfoperator.kube.views.objects import HasMetadata, compacting


class DeploymentStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a deployment's status that the controller reads."""

    available_replicas: int = 0


class Deployment(HasMetadata, frozen=True, gc=False):
    """A deployment, trimmed."""

    status: DeploymentStatus = msgspec.field(default_factory=DeploymentStatus)


decode_deployment: Callable[[bytes], Deployment] = compacting(msgspec.json.Decoder(Deployment).decode)
"""Decode a deployment for a cache: trimmed, shared, only what is in use. Raises msgspec.DecodeError."""
