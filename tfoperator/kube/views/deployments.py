"""A view of Deployments, reduced to the fields in use, as in `tfoperator.kube.views.objects`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tfoperator.kube.views.objects import HasMetadata, compacting


class DeploymentStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a deployment's status that this project reads."""

    available_replicas: int = 0


class Deployment(HasMetadata, frozen=True, gc=False):
    """A deployment, reduced to the fields in use."""

    status: DeploymentStatus = msgspec.field(default_factory=DeploymentStatus)


decode_deployment: Callable[[bytes], Deployment] = compacting(msgspec.json.Decoder(Deployment).decode)
"""Decode a deployment for a cache. The result contains only the fields in use, and shares equal values with other
cached objects. Raises msgspec.DecodeError.
"""
