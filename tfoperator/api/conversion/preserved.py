"""Keeps in an annotation the fields that the target version lacks, so that converting back restores these fields.

An annotation is the only part of an object that every API server and every client leaves unchanged. The annotation
holds only members that the version of the object lacks, and the conversion restores only such members. If both versions
have a field, its value always comes from the object itself. So an edit of the converted object takes effect. The status
needs no annotation (see `v1alpha2`).
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
"""The annotation that keeps the fields of v1 that v1alpha2 lacks, on a v1alpha2 job."""

V1ALPHA2_ONLY = LABEL_PREFIX + "v1alpha2-only"
"""The annotation that keeps the fields of v1alpha2 that v1 lacks, on a v1 job."""

V1ALPHA1_ONLY = LABEL_PREFIX + "v1alpha1-only"
"""The annotation that keeps the fields of v1alpha1 that v1 lacks, on a v1 job that was made from v1alpha1. Only people
read this annotation.
"""


class Preserved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The annotation's value. Its keys are spelled as in the version that the fields belong to.

    `spec` has members of the spec, `replicas` has members of replica specs by replica type. Some spellings of a replica
    type can't be derived from the spelling in the other version. For these, `spec_names` and `status_names` map the
    other version's spelling to the original spelling.
    """

    spec: dict[str, Any] = {}
    replicas: dict[str, dict[str, Any]] = {}
    spec_names: dict[str, str] = {}
    status_names: dict[str, str] = {}


_MAX_LEVELS = 1000
"""The limit for levels of nested JSON in an annotation. An API server reads at most 10,000 levels, and an annotation
can hold more. If the conversion restored more levels than an API server reads, the API server could not read any list
that includes this job.
"""

MAX_ANNOTATIONS = 256 << 10
"""The limit in bytes for the names and values of all annotations of one object. If one object has more, the API server
fails every list or watch of its version, for every client.
"""

OMITTED = "omitted"
"""The annotation's value if the preserved fields do not fit into the annotations. A job with this value can't be
converted back, because the conversion would lose the fields.
"""

_NOTHING_PRESERVED = Preserved()
_decode = msgspec.json.Decoder(Preserved).decode


def take(obj: Mapping[str, Any], annotation: str) -> tuple[dict[str, Any], Preserved]:
    """Return the object without the annotation, and the preserved fields from the annotation.

    An annotation that can't be read stays on the object, and its fields are not restored: one such job must not make a
    list of jobs fail.
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
            "the job can't be changed as v1alpha2, because its annotations have no space for the fields that only v1 "
            "has. Read or edit the job as v1: kubectl edit tfjobs.v1.kubeflow.org NAME"
        )
        raise ConversionError(f"metadata.annotations[{V1_ONLY}]", what)


def preserve(obj: dict[str, Any], annotation: str, value: Preserved | Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with the annotation; return it unchanged if there is nothing to preserve.

    If the annotations have no room for the fields of v1, the annotation gets the value `OMITTED` instead of the fields,
    because an API server fails every list that includes a job with larger annotations than MAX_ANNOTATIONS. If the
    annotations are still too large, the longest annotations are removed. Metadata that isn't an object can't have
    annotations; validation refuses it anyway.
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
    """Return the members of a run policy that both versions have, and the remaining members without those in `moved`.

    The members that both versions have are `managedBy` and `schedulingPolicy.queue`. Users must not change these
    members. An API server's rules can forbid a change of a field, but they can't check the content of an annotation. So
    both versions have these members in `spec.runPolicy`, where the same rules apply. If an annotation has these
    members, too, the conversion ignores the members in the annotation. If `policy` is not an object, it is returned
    unchanged as the remaining members. `policy` is not changed.
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
    """Return a copy of a run policy in which the members `own` replace members of the same name.

    Only `schedulingPolicy` is merged: its members that `own` does not have are kept. If `policy` is not an object,
    return `own`. Both arguments stay unchanged.
    """
    result = {**policy, **own} if isinstance(policy, dict) else own
    before = policy.get(_SCHEDULING) if isinstance(policy, dict) else None
    if isinstance(before, dict) and _SCHEDULING in own:
        result[_SCHEDULING] = {**before, **own[_SCHEDULING]}
    return result


_REPLICAS = "spec.tfReplicaSpecs"


def check_restored(job: Mapping[str, Any], members: Collection[str]) -> None:
    """Check `members` of a v1 job's spec; raise ConversionError for the first member that v1 refuses.

    An API server checks a v1alpha2 job by v1alpha2's rules, converts the job, and stores it without another check. So
    the API server has not checked the members that come from the annotation. The other members have passed v1alpha2's
    rules, so this function does not check them. A check of the other members could fail: an API server accepts members
    that are older than its rules, and also converts incomplete jobs. The function checks the job's name only if the job
    has a TensorBoard, because the TensorBoard's name contains the job's name.
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
    """Yield the field and the position of each null in a TensorBoard's lists.

    v1's schema refuses these nulls, but decoding would drop them silently.
    """
    members = tensorboard.items() if isinstance(tensorboard, dict) else ()
    for field, items in members:
        if isinstance(items, list):
            yield from ((field, position) for position, item in enumerate(items) if item is None)
