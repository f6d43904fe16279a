"""The page's types for pods. They have the fields of the operator's types, and fields that only users read.

These types are separate from the operator's types, because the operator's caches must stay small.
"""

from __future__ import annotations

import msgspec

from tfoperator.kube.views.objects import Pod, PodSpec


class ContainerResources(msgspec.Struct, frozen=True, gc=False):
    """Quantities by the name of the resource. They are not parsed."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class SeenContainer(msgspec.Struct, frozen=True, gc=False):
    """The spec of a container."""

    name: str = ""
    image: str = ""
    resources: ContainerResources | None = None


class SeenPodSpec(PodSpec, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

    containers: tuple[SeenContainer, ...] = ()


class SeenPod(Pod, frozen=True, gc=False):
    """A pod with its images and limits."""

    spec: SeenPodSpec = msgspec.field(default_factory=SeenPodSpec)


decode_pod = msgspec.json.Decoder(SeenPod).decode
"""Decodes one pod. Raises msgspec.DecodeError."""
