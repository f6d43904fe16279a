"""Converts any TFJob to v1: finds the version of an object, and the conversion for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tfoperator.api.conversion.result import Conversion, ConversionError
from tfoperator.api.conversion.v1alpha1 import v1alpha1_to_v1
from tfoperator.api.conversion.v1alpha2 import V1ALPHA2, v1alpha2_to_v1
from tfoperator.api.fields.problems import Problem, Severity
from tfoperator.api.v1.types import TFJOBS
from tfoperator.api.validation.manifest import validate_manifest

OLDER_VERSIONS: Mapping[str, Callable[[Mapping[str, Any]], Conversion]] = {
    V1ALPHA2: v1alpha2_to_v1,
    f"{TFJOBS.group}/v1alpha1": v1alpha1_to_v1,
    # The group and kind (TfJob) of v1alpha1's first months.
    "tensorflow.org/v1alpha1": v1alpha1_to_v1,
}
"""The functions that convert to v1, by apiVersion."""


def is_tfjob_kind(obj: Mapping[str, Any]) -> bool:
    """Return whether an object's kind is TFJob, in the spelling of any version."""
    kind = obj.get("kind")
    return isinstance(kind, str) and kind.lower() == TFJOBS.kind.lower()


def older_version(obj: Mapping[str, Any]) -> str | None:
    """Return the apiVersion of a TFJob that is older than v1 and can be converted; None for everything else."""
    version = obj.get("apiVersion")
    return version if isinstance(version, str) and version in OLDER_VERSIONS and is_tfjob_kind(obj) else None


def to_v1(obj: dict[str, Any]) -> Conversion:
    """Return a TFJob of an older version as v1; return any other object unchanged and without notes.

    Raises ConversionError if the job can't be converted.
    """
    version = older_version(obj)
    if version is None:
        return Conversion(obj)
    conversion = OLDER_VERSIONS[version](obj)
    return msgspec.structs.replace(conversion, obj={**conversion.obj, "kind": TFJOBS.kind})


def check(obj: dict[str, Any]) -> tuple[Conversion, tuple[Problem, ...]]:
    """Return a TFJob of any version as v1, and all of its problems, with the paths of the original's fields.

    A job that can't be converted is returned unchanged, with the reason as its only problem.
    """
    try:
        conversion = to_v1(obj)
    except ConversionError as error:
        return Conversion(obj), (error.problem,)
    problems = (
        msgspec.structs.replace(problem, field=conversion.origin(problem.field))
        for problem in validate_manifest(conversion.obj)
    )
    return conversion, tuple(
        problem for problem in problems if problem.severity is Severity.ERROR or problem.field not in conversion.used
    )
