"""TFJobs as the embedded server serves them: the CRD of `tfoperator.api`, and its rules by the same validation.

The CRD's CEL rules are not evaluated here; `tfoperator.api.validate` says the same and more, so a job that is refused
on a laptop is one that would be refused, or would fail, on a cluster. No webhook converts between versions here, but
the functions that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tfoperator.api import ReplicaType, decode_tfjob, errors, validate
from tfoperator.api.conversion import v1_to_v1alpha2, v1alpha2_to_v1
from tfoperator.api.crd import crd
from tfoperator.local.apiserver.custom_resources import CustomResource, custom_resource, custom_view
from tfoperator.local.apiserver.errors import FieldProblem, forbidden
from tfoperator.local.apiserver.store import encode

__all__ = ["tfjobs"]

_Dict = dict[str, Any]

_MANAGED_BY = ("runPolicy", "managedBy")
_QUEUE = ("runPolicy", "schedulingPolicy", "queue")


def tfjobs() -> tuple[CustomResource, ...]:
    """The TFJob resource in every version, that which is stored first."""
    both = crd(all_versions=True)
    v1alpha2 = custom_view(
        both,
        "v1alpha2",
        to_stored=lambda obj: v1alpha2_to_v1(obj).obj,
        from_stored=lambda obj: v1_to_v1alpha2(obj).obj,
        validator=_validate_v1alpha2,
    )
    return custom_resource(both, _validate), v1alpha2


def _validate_v1alpha2(obj: _Dict, old: _Dict | None) -> Iterator[FieldProblem]:  # noqa: ARG001 - nothing immutable
    for name in obj["spec"]["tfReplicaSpecs"]:
        if name.lower() == ReplicaType.MASTER.lower():  # v1alpha2 knows Chief only
            yield FieldProblem("spec.tfReplicaSpecs", "FieldValueInvalid", "Invalid value: there is no type Master")
    conversion = v1alpha2_to_v1(obj)
    for problem in _validate(conversion.obj, None):
        yield msgspec.structs.replace(problem, field=conversion.origin(problem.field))


def _validate(obj: _Dict, old: _Dict | None) -> Iterator[FieldProblem]:
    for problem in errors(validate(decode_tfjob(encode(obj)))):
        # A job that has a status is older than the rule about its name, which it can't change any more.
        if not (obj.get("status") and problem.field.startswith("metadata.") and not _adds_tensorboard(obj, old)):
            yield FieldProblem(problem.field, "FieldValueInvalid", f"Invalid value: {problem.message}")
    if old is None:
        return
    if (_lookup(old["spec"], _MANAGED_BY) or "") != (_lookup(obj["spec"], _MANAGED_BY) or ""):
        yield forbidden("spec.runPolicy.managedBy", "can't be changed")
    before, after = _lookup(old["spec"], _QUEUE), _lookup(obj["spec"], _QUEUE)
    if before is not None and after is not None and before != after:
        yield forbidden("spec.runPolicy.schedulingPolicy.queue", "can't be changed")


def _adds_tensorboard(obj: _Dict, old: _Dict | None) -> bool:
    return old is not None and "tensorBoard" in obj["spec"] and "tensorBoard" not in old["spec"]


def _lookup(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
