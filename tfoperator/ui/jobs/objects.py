"""The types of pods for the page: the fields of the operator's types, and additional fields that the page shows.

The operator's types don't have the additional fields, because the operator's caches must stay small.
"""

from __future__ import annotations

import msgspec

from tfoperator.kube.views.objects import Pod, PodSpec


class ContainerResources(msgspec.Struct, frozen=True, gc=False):
    """The requests and limits of a container by the name of the resource. Amounts are as in the manifest (`500m`)."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class SeenContainer(msgspec.Struct, frozen=True, gc=False):
    """The spec of a container, with its image and resources."""

    name: str = ""
    image: str = ""
    resources: ContainerResources | None = None


class SeenPodSpec(PodSpec, frozen=True, gc=False, rename="camel"):
    """The spec of a pod, with its containers."""

    containers: tuple[SeenContainer, ...] = ()


class SeenPod(Pod, frozen=True, gc=False):
    """A pod, with the images and resources of its containers."""

    spec: SeenPodSpec = msgspec.field(default_factory=SeenPodSpec)


decode_pod = msgspec.json.Decoder(SeenPod).decode
"""Decodes the JSON of a pod. Raises msgspec.DecodeError."""
