"""Preserves fields that another version lacks in an annotation there, so that converting back restores them.

An annotation is the only part of an object that every API server and every client leaves alone. It holds only members
that its version lacks, and only members are restored, never values: a field that both versions have is read from the
object itself, so an edit made in between takes effect. The status does not need this (see `v1alpha2`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from tfoperator.api.conversion.result import ConversionError
from tfoperator.api.fields.problems import errors
from tfoperator.api.replicas.names import LABEL_PREFIX
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation.job import validate
from tfoperator.kube.http.nesting import reaches
from tfoperator.kube.protocol.errors import UNDECODABLE

V1_ONLY = LABEL_PREFIX + "v1-only"
"""On a v1alpha2 job: the fields that only v1 has."""

V1ALPHA2_ONLY = LABEL_PREFIX + "v1alpha2-only"
"""On a v1 job: the fields that only v1alpha2 has."""

V1ALPHA1_ONLY = LABEL_PREFIX + "v1alpha1-only"
"""On a v1 job that was made from v1alpha1: the fields that were not carried over. Only people read it."""


class Preserved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The annotation's value. All keys are spelled as in the version that the value is for.

    `spec` has members of the spec, `replicas` has members of replica specs by replica type. If the original spelling of
    a replica type doesn't follow from its spelling in the other version, `spec_names` and `status_names` map the latter
    to the former.
    """

    spec: dict[str, Any] = {}
    replicas: dict[str, dict[str, Any]] = {}
    spec_names: dict[str, str] = {}
    status_names: dict[str, str] = {}


_MAX_LEVELS = 1000
"""An API server reads JSON of up to 10,000 levels, and an annotation can hold more levels. If these were restored, the
server could not read any job of a list."""

MAX_ANNOTATIONS = 256 << 10
"""Bytes of the names and values of an object's annotations. If one object has more, the API server fails every list or
watch of its version, for every client."""

OMITTED = "omitted"
"""The value in place of fields that have no room. A job with it can't be converted back, because it would lose them."""

_NOTHING_PRESERVED = Preserved()
_decode = msgspec.json.Decoder(Preserved).decode


def take(obj: Mapping[str, Any], annotation: str) -> tuple[dict[str, Any], Preserved]:
    """Return the object without the annotation, and the preserved fields from it.

    An annotation that can't be read stays and counts as absent: one such job must not make a list of jobs fail.
    """
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations, dict) or annotation not in annotations:
        return dict(obj), _NOTHING_PRESERVED
    try:
        preserved = _decode(annotations[annotation])
    except (*UNDECODABLE, TypeError):
        return dict(obj), _NOTHING_PRESERVED
    if reaches([preserved.spec, preserved.replicas], _MAX_LEVELS):
        return dict(obj), _NOTHING_PRESERVED
    others = {name: value for name, value in annotations.items() if name != annotation}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**obj, "metadata": {**rest, "annotations": others} if others else rest}, preserved


def check_complete(obj: Mapping[str, Any]) -> None:
    """Raise ConversionError for a v1alpha2 job that lacks fields of v1 because its annotations had no room for them."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(annotations, dict) and annotations.get(V1_ONLY) == OMITTED:
        what = (
            "can't be shown as this version: annotations can't hold all fields that only v1 has; change the job as "
            "kubeflow.org/v1"
        )
        raise ConversionError(f"metadata.annotations[{V1_ONLY}]", what)


def preserve(obj: dict[str, Any], annotation: str, value: Preserved | Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with the annotation, or as it is if there is nothing to preserve.

    If the annotations have no room for fields of v1, the fields are omitted (`OMITTED`): a stored job must always be
    readable as another version. Metadata that isn't an object can't have annotations; validation refuses it anyway.
    """
    data = msgspec.json.encode(value, order="deterministic").decode()
    metadata = obj.get("metadata") or {}
    if data == "{}" or not isinstance(metadata, dict):
        return obj
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, dict):
        return obj
    kept = {**annotations, annotation: data}
    if annotation == V1_ONLY and _bytes_of(kept) > MAX_ANNOTATIONS:
        kept[annotation] = OMITTED
        while _bytes_of(kept) > MAX_ANNOTATIONS:
            del kept[max(kept, key=lambda name: len(str(kept[name])))]
    return {**obj, "metadata": {**metadata, "annotations": kept}}


def _bytes_of(annotations: Mapping[str, Any]) -> int:
    return sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())


_Dict = dict[str, Any]

_MANAGED_BY = "managedBy"
_SCHEDULING = "schedulingPolicy"
_QUEUE = "queue"


def split_policy(policy: Any, moved: Iterable[str] = ()) -> tuple[_Dict, Any]:
    """Return a run policy's members that both versions have, and the rest without the members named in `moved`.

    The members of both versions are immutable, and an API server's rules can't check the content of an annotation. So
    both versions have them in `spec.runPolicy`, where the same rules apply, and in an annotation they are ignored. If
    `policy` is not an object, the rest is `policy` itself. `policy` is not changed.
    """
    if not isinstance(policy, dict):
        return {}, policy
    rest = {name: value for name, value in policy.items() if name not in (_MANAGED_BY, *moved)}
    own = {_MANAGED_BY: policy[_MANAGED_BY]} if _MANAGED_BY in policy else {}
    scheduling = rest.get(_SCHEDULING)
    if isinstance(scheduling, dict) and _QUEUE in scheduling:
        own[_SCHEDULING] = {_QUEUE: scheduling[_QUEUE]}
        rest[_SCHEDULING] = {name: value for name, value in scheduling.items() if name != _QUEUE}
        if not rest[_SCHEDULING]:
            del rest[_SCHEDULING]
    return own, rest


def overlaid(policy: Any, own: _Dict) -> _Dict:
    """Return a copy of a run policy, or of the value in its place, with `own` in it. Both arguments stay unchanged."""
    result = {**policy, **own} if isinstance(policy, dict) else own
    before = policy.get(_SCHEDULING) if isinstance(policy, dict) else None
    if isinstance(before, dict) and _SCHEDULING in own:
        result[_SCHEDULING] = {**before, **own[_SCHEDULING]}
    return result


_REPLICAS = "spec.tfReplicaSpecs"


def check_restored(job: Mapping[str, Any], members: Collection[str]) -> None:
    """Raise ConversionError for the first of these members of a v1 job's spec that v1 refuses.

    An API server checks a v1alpha2 job by v1alpha2's rules and stores the converted job without another check, so the
    rules have not checked the members from the annotation. The other members have passed those rules, and are not
    checked here: a member that is older than the rules may be accepted all the same, and an API server may ask about a
    part of a job. The job's name is checked only if a TensorBoard is named after it.
    """
    spec = job.get("spec")
    if not members or not isinstance(spec, dict):
        return
    metadata = job.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    restored = {member: spec[member] for member in members if member in spec}
    alone = {"metadata": {"name": name if isinstance(name, str) else ""}, "spec": {**restored, "tfReplicaSpecs": {}}}
    judged = (_REPLICAS,) if "tensorBoard" in restored else (_REPLICAS, "metadata.name")
    annotation = f"metadata.annotations[{V1_ONLY}]"
    for field, position in _null_items(restored.get("tensorBoard")):
        raise ConversionError(annotation, f"spec.tensorBoard.{field}[{position}]: must be an object")
    try:
        decoded = decode_tfjob(msgspec.json.encode(alone))
    except UNDECODABLE as error:
        raise ConversionError(annotation, f"spec: {error}") from None
    for problem in errors(validate(decoded)):
        if problem.field not in judged:
            raise ConversionError(annotation, f"{problem.field}: {problem.message}")


def _null_items(tensorboard: Any) -> Iterable[tuple[str, int]]:
    """Yield the nulls in a TensorBoard's lists: decoding drops them, and v1's schema refuses them."""
    members = tensorboard.items() if isinstance(tensorboard, dict) else ()
    for field, items in members:
        if isinstance(items, list):
            yield from ((field, position) for position, item in enumerate(items) if item is None)
