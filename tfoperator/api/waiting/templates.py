"""The parts of a replica's template that explain why a pod made from it does not start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from tfoperator.api.templates import NotKept, readable_spec

_MAX_NAMES = 5
_CACHED = 64
"""Templates whose facts are kept: only those of jobs that wait are asked for."""


def images_of(template: msgspec.Raw) -> Mapping[str, str]:
    """Return the image of each container by its name; none if the template can't be read."""
    return _facts(bytes(template))[0]


def mounts_of(template: msgspec.Raw) -> tuple[str, ...]:
    """Return the objects that the pod's volumes need, such as `ConfigMap a`, but for optional ones; a few of many."""
    return _facts(bytes(template))[1]


@lru_cache(_CACHED)
def _facts(data: bytes) -> tuple[Mapping[str, str], tuple[str, ...]]:
    try:
        spec = readable_spec(msgspec.Raw(data))
    except NotKept:
        return {}, ()
    containers = [*_dicts(spec.get("initContainers")), *_dicts(spec.get("containers"))]
    images = {str(one.get("name")): str(one.get("image", "")) for one in containers}
    found = dict.fromkeys(name for volume in _dicts(spec.get("volumes")) for name in mounted_objects(volume))
    return images, tuple(found)[:_MAX_NAMES]


def mounted_objects(volume: Mapping[str, Any]) -> Iterator[str]:
    """Yield the objects that a volume needs, such as `Secret token`, but for optional ones."""
    sources = [volume, *_dicts(_dict(volume.get("projected")).get("sources"))]
    for source in sources:
        for member, kind, key in _SOURCES:
            one = _dict(source.get(member))
            name = one.get(key)
            if name and one.get("optional") is not True:
                yield f"{kind} {name}"


_SOURCES = (
    ("configMap", "ConfigMap", "name"),
    ("secret", "Secret", "secretName"),
    ("secret", "Secret", "name"),  # of a projected volume
    ("persistentVolumeClaim", "PersistentVolumeClaim", "claimName"),
)


def _dict(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
