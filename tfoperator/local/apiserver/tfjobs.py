"""TFJobs as the embedded server serves them: the CRD of `tfoperator.api`, and its rules by the same validation.

The CRD's CEL rules are not evaluated here; `tfoperator.api.validate` says the same and more, so a job that is refused
on a laptop is one that would be refused, or would fail, on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfoperator.api import decode_tfjob, errors, validate
from tfoperator.api.crd import crd
from tfoperator.local.apiserver.custom_resources import CustomResource, custom_resource
from tfoperator.local.apiserver.errors import FieldProblem, invalid_value
from tfoperator.local.apiserver.store import encode

__all__ = ["tfjobs"]

_Dict = dict[str, Any]

_IMMUTABLE = (("runPolicy", "managedBy"), ("runPolicy", "schedulingPolicy", "queue"))


def tfjobs() -> CustomResource:
    """The TFJob resource."""
    return custom_resource(crd(), _validate)


def _validate(obj: _Dict, old: _Dict | None) -> Iterator[FieldProblem]:
    for problem in errors(validate(decode_tfjob(encode(obj)))):
        yield FieldProblem(problem.field, "FieldValueInvalid", f"Invalid value: {problem.message}")
    if old is not None:
        for path in _IMMUTABLE:
            before, after = _lookup(old["spec"], path), _lookup(obj["spec"], path)
            if before is not None and after != before:
                yield invalid_value(f"spec.{'.'.join(path)}", after, "field is immutable")


def _lookup(value: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
