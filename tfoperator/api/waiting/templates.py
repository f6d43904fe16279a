"""Reads the images and the mounted objects from a replica's template, for texts about why its pod does not start."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from tfoperator.api.pods.references import references_of_volumes
from tfoperator.api.replicas.templates import NotKept, readable_spec

_MAX_NAMES = 5
_CACHED = 64
"""The maximum number of templates whose facts are cached. The limit is small because only jobs that wait need the
facts.
"""


def images_of(template: msgspec.Raw) -> Mapping[str, str]:
    """Return the image of each container by the container's name; empty if the template can't be read."""
    return _facts(bytes(template))[0]


def mounts_of(template: msgspec.Raw) -> tuple[str, ...]:
    """Return the objects that the pod's volumes need, such as `ConfigMap a`, without optional objects; at most five."""
    return _facts(bytes(template))[1]


@lru_cache(_CACHED)
def _facts(data: bytes) -> tuple[Mapping[str, str], tuple[str, ...]]:
    try:
        spec = readable_spec(msgspec.Raw(data))
    except NotKept:
        return {}, ()
    members = (spec.get("initContainers"), spec.get("containers"))
    containers = [
        container
        for member in members
        if isinstance(member, list)
        for container in member
        if isinstance(container, dict)
    ]
    images = {str(container.get("name")): str(container.get("image", "")) for container in containers}
    return images, tuple(dict.fromkeys(map(str, references_of_volumes(spec))))[:_MAX_NAMES]
