"""Moves policies of a v1 job from `spec`, where early releases of v1 had them, to `spec.runPolicy`. Pure.

The Go operator read them in `spec` up to release 1.2, and Arena's own CRD has them there today. API servers with a CRD
of later releases, also of this release, drop them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfoperator.api.conversion.result import Conversion, Note
from tfoperator.api.fields.structure import members
from tfoperator.api.v1.types import TFJOBS, RunPolicy, TFJobSpec

_POLICY = "runPolicy"


def misplaced_policies(obj: Mapping[str, Any]) -> list[str]:
    """Return the names of the policies that a v1 job has directly in its spec, in its order."""
    spec = obj.get("spec")
    if obj.get("apiVersion") != TFJOBS.api_version or not isinstance(spec, dict):
        return []
    policies = members(RunPolicy).keys() - members(TFJobSpec).keys()
    return [name for name in spec if name in policies]


def move_policies(obj: dict[str, Any]) -> Conversion:
    """Return the job with its policies in `spec.runPolicy`; return it as it is if no policy is misplaced.

    A misplaced policy is left out if `runPolicy` has it too, because the Go operator of today reads `runPolicy`.
    """
    misplaced = misplaced_policies(obj)
    spec = obj.get("spec")
    if not misplaced or not isinstance(spec, dict):
        return Conversion(obj)
    policy = spec.get(_POLICY) or {}
    if not isinstance(policy, dict):
        return Conversion(obj)  # validation reports this
    notes = []
    for name in misplaced:
        if policy.get(name) is None:
            notes.append(Note(f"spec.{name}", f"is moved to spec.{_POLICY}"))
        elif policy[name] == spec[name]:
            notes.append(Note(f"spec.{name}", f"is left out: spec.{_POLICY} has the same value"))
        else:
            notes.append(
                Note(f"spec.{name}", f"is left out: spec.{_POLICY} has a different value, which stays", lost=True)
            )
    moved = {name: spec[name] for name in misplaced if policy.get(name) is None}
    rest = {name: value for name, value in spec.items() if name not in misplaced}
    origins = {f"spec.{_POLICY}.{name}": f"spec.{name}" for name in moved}
    return Conversion({**obj, "spec": {**rest, _POLICY: {**policy, **moved}}}, tuple(notes), origins)
