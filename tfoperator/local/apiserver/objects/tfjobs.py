"""TFJobs on the embedded server: the CRD and the validation of `tfoperator.api`.

The CRD's CEL rules are not evaluated here. `tfoperator.api.validate` checks the same rules and some more. So a cluster
rejects a job that the embedded server rejects, or accepts the job but can't run it. The functions of the conversion
webhook convert objects between versions, but the webhook itself does not run. Objects that the webhook would reject are
rejected with the webhook's message.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfoperator.api import decode_tfjob, errors, validate
from tfoperator.api.conversion import (
    V1_ONLY,
    Conversion,
    ConversionError,
    checked_v1alpha2_to_v1,
    v1_to_v1alpha2,
    v1alpha2_to_v1,
)
from tfoperator.api.replicas.data_service import DEFAULT_DATA_SERVICE_PORT
from tfoperator.api.schema.crd import crd
from tfoperator.api.schema.v1alpha2 import V1ALPHA2_TYPES
from tfoperator.local.apiserver.errors import FieldProblem, StatusError, forbidden
from tfoperator.local.apiserver.members import Json, member_at
from tfoperator.local.apiserver.objects.custom_resources import CustomResource, custom_resource, custom_view
from tfoperator.local.apiserver.storage.store import encode

_MANAGED_BY = ("runPolicy", "managedBy")
_NETWORK = ("network",)
_QUEUE = ("runPolicy", "schedulingPolicy", "queue")


def tfjobs() -> tuple[CustomResource, ...]:
    """Return the TFJob resource in every version. The stored version comes first."""
    both = crd(all_versions=True)
    v1 = custom_resource(both, _validate)
    v1alpha2 = custom_view(
        both,
        "v1alpha2",
        v1,
        to_stored=lambda obj: v1alpha2_to_v1(obj).obj,
        from_stored=lambda obj: v1_to_v1alpha2(obj).obj,
        validator=_validate_v1alpha2,
        convertible=_check_convertible,
    )
    return v1, v1alpha2


def _check_convertible(obj: Json) -> None:
    try:
        checked_v1alpha2_to_v1(obj)
    except ConversionError as error:
        # kube-apiserver reports the rejection of a conversion webhook as a 500.
        kind = f"{obj['apiVersion']}, Kind={obj['kind']}"
        raise StatusError(500, "InternalError", f"conversion webhook for {kind} failed: {error}") from None


def _validate_v1alpha2(obj: Json, old: Json | None) -> Iterator[FieldProblem]:
    known_names = {name.lower() for name in V1ALPHA2_TYPES}
    unknown = {
        f"spec.tfReplicaSpecs[{name}]" for name in obj["spec"]["tfReplicaSpecs"] if name.lower() not in known_names
    }
    for field in sorted(unknown):
        message = f"Invalid value: is not a replica type; the types are {', '.join(V1ALPHA2_TYPES)}"
        yield FieldProblem(field, "FieldValueInvalid", message)
    conversion = _without_annotation(obj)
    for problem in _validate(conversion.obj, old and _without_annotation(old).obj):
        field = conversion.origin(problem.field)
        if field not in unknown:
            yield msgspec.structs.replace(problem, field=field)


def _without_annotation(obj: Json) -> Conversion:
    """Convert a v1alpha2 object to v1, but leave out the fields that its annotation `V1_ONLY` contains.

    In this annotation, a v1alpha2 object keeps the fields that exist only in v1. A cluster does not validate these
    fields in a v1alpha2 object, because schemas and CEL rules can't read annotations. So this server validates the
    result, which lacks these fields.
    """
    annotations = {name: value for name, value in (obj["metadata"].get("annotations") or {}).items() if name != V1_ONLY}
    return v1alpha2_to_v1({**obj, "metadata": {**obj["metadata"], "annotations": annotations}})


def _validate(obj: Json, old: Json | None) -> Iterator[FieldProblem]:
    for problem in errors(validate(decode_tfjob(encode(obj)))):
        # A job with a status may be older than a rule about its name, and its name can't be changed any more.
        older = obj.get("status") and problem.field.startswith("metadata.")
        added = any(_adds(obj, old, name) for name in ("tensorBoard", "dataService"))
        if not older or added or _adds_replicas(obj, old):
            yield FieldProblem(problem.field, "FieldValueInvalid", f"Invalid value: {problem.message}")
    if old is None:
        return
    for path in (_MANAGED_BY, _NETWORK):
        before, after = (member_at(tfjob["spec"], path) or "" for tfjob in (old, obj))
        if before != after:
            yield forbidden(f"spec.{'.'.join(path)}", f'can\'t be changed from "{before}" to "{after}"')
    before, after = (member_at(tfjob["spec"], _QUEUE) for tfjob in (old, obj))
    if before is not None and after is not None and before != after:
        yield forbidden("spec.runPolicy.schedulingPolicy.queue", f'can\'t be changed from "{before}" to "{after}"')

    if not any("dataService" not in tfjob["spec"] for tfjob in (old, obj)):
        was, now = (tfjob["spec"]["dataService"].get("port", DEFAULT_DATA_SERVICE_PORT) for tfjob in (old, obj))
        if was != now:
            yield forbidden("spec.dataService.port", f'can\'t be changed from "{was}" to "{now}"')


def _adds_replicas(obj: Json, old: Json | None) -> bool:
    before = {} if old is None else old["spec"]["tfReplicaSpecs"]
    return old is not None and any(
        name not in before or (spec.get("replicas") or 0) > (before[name].get("replicas") or 0)
        for name, spec in obj["spec"]["tfReplicaSpecs"].items()
    )


def _adds(obj: Json, old: Json | None, name: str) -> bool:
    """Return whether an update adds the field `name` to the job's spec. For a new job, `old` is None: return False."""
    return old is not None and name in obj["spec"] and name not in old["spec"]
