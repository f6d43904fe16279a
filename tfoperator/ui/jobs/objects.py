"""The page's view of pods: the operator's, with the fields that only users read.

It is separate from the operator's, whose caches must stay small.
"""

from __future__ import annotations

import msgspec

from tfoperator.kube.views.objects import Pod, PodSpec


class ContainerResources(msgspec.Struct, frozen=True, gc=False):
    """Quantities by the resource's name, unparsed."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class SeenContainer(msgspec.Struct, frozen=True, gc=False):
    """A container's spec."""

    name: str = ""
    image: str = ""
    resources: ContainerResources | None = None


class SeenPodSpec(PodSpec, frozen=True, gc=False, rename="camel"):
    """A pod's spec."""

    containers: tuple[SeenContainer, ...] = ()


class SeenPod(Pod, frozen=True, gc=False):
    """A pod with images and limits."""

    spec: SeenPodSpec = msgspec.field(default_factory=SeenPodSpec)


decode_pod = msgspec.json.Decoder(SeenPod).decode
"""Decodes one pod. Raises msgspec.DecodeError."""
