"""What a job says that another version can't: preserved in an annotation there, so that converting back restores it.

An annotation is the only place of an object that every API server and every client leaves alone. It holds only what its
version has no field for, and only members are restored, never values: a field that both versions have is read from the
object itself, so an edit made in between holds. The status needs no such care (see `v1alpha2`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tfoperator.api.names import LABEL_PREFIX
from tfoperator.kube.errors import UNDECODABLE

V1_ONLY = LABEL_PREFIX + "v1-only"
"""On a v1alpha2 job: what only v1 can say."""

V1ALPHA2_ONLY = LABEL_PREFIX + "v1alpha2-only"
"""On a v1 job: what only v1alpha2 can say."""

V1ALPHA1_ONLY = LABEL_PREFIX + "v1alpha1-only"
"""On a v1 job that was made from v1alpha1: what was not carried over. Nothing reads it but people."""


class Preserved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The annotation's value. All keys are spelled as in the version that the value is for.

    `spec` are members of the spec, `replicas` members of replica specs by replica type. `spec_names` and `status_names`
    say how a replica type was spelled, by its spelling in the other version, where that doesn't follow from it.
    """

    spec: dict[str, Any] = {}
    replicas: dict[str, dict[str, Any]] = {}
    spec_names: dict[str, str] = {}
    status_names: dict[str, str] = {}


_MAX_LEVELS = 1000
"""An API server reads JSON of up to 10,000 levels, and an annotation can hold more: restored, they would keep it from
reading any job of a list."""

_NOTHING = Preserved()
_decode = msgspec.json.Decoder(Preserved).decode


def take(obj: Mapping[str, Any], annotation: str) -> tuple[dict[str, Any], Preserved]:
    """The object without the annotation, and what was preserved in it.

    One that can't be read is left where it is and counts as absent: a list of jobs must not fail for one of them.
    """
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations, dict) or annotation not in annotations:
        return dict(obj), _NOTHING
    try:
        preserved = _decode(annotations[annotation])
    except (*UNDECODABLE, TypeError):
        return dict(obj), _NOTHING
    if _too_deep(preserved):
        return dict(obj), _NOTHING
    others = {name: value for name, value in annotations.items() if name != annotation}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**obj, "metadata": {**rest, "annotations": others} if others else rest}, preserved


def _too_deep(preserved: Preserved) -> bool:
    level: list[Any] = [preserved.spec, preserved.replicas]
    for _ in range(_MAX_LEVELS):
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [value for values in inner for value in values]
        if not level:
            return False
    return True


def preserve(obj: dict[str, Any], annotation: str, value: Preserved | Mapping[str, Any]) -> dict[str, Any]:
    """The object with the annotation, or as it is if there is nothing to preserve.

    Metadata that isn't an object at all can't have annotations; validation refuses it anyway.
    """
    data = msgspec.json.encode(value, order="deterministic").decode()
    metadata = obj.get("metadata") or {}
    if data == "{}" or not isinstance(metadata, dict):
        return obj
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, dict):
        return obj
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, annotation: data}}}
