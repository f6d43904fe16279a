"""Moves policies of a v1 job from `spec` to `spec.runPolicy`: early releases of v1 had them in `spec`. Pure.

The Go operator read these policies in `spec` up to release 1.2, and the CRD that Arena installs has them there today.
A policy is a member of the run policy, such as `cleanPodPolicy`. API servers drop policies in `spec` if the cluster's
CRD is of a later release, or of this operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfoperator.api.conversion.result import Conversion, Note
from tfoperator.api.fields.structure import members
from tfoperator.api.v1.parts.run_policy import RunPolicy
from tfoperator.api.v1.types import TFJOBS, TFJobSpec

_POLICY = "runPolicy"


def misplaced_policies(obj: Mapping[str, Any]) -> list[str]:
    """Return the names of the policies that a v1 job has directly in its spec, in the order of the spec."""
    spec = obj.get("spec")
    if obj.get("apiVersion") != TFJOBS.api_version or not isinstance(spec, dict):
        return []
    policies = members(RunPolicy).keys() - members(TFJobSpec).keys()
    return [name for name in spec if name in policies]


def move_policies(obj: dict[str, Any]) -> Conversion:
    """Return the job with its policies in `spec.runPolicy`; return it as it is if no policy is misplaced.

    If `runPolicy` already has a policy of the same name, the policy in `spec` is left out, because today's Go operator
    reads `runPolicy`.
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
            notes.append(Note(f"spec.{name}", f"is left out: spec.{_POLICY}.{name} has the same value"))
        else:
            notes.append(
                Note(
                    f"spec.{name}", f"is left out: spec.{_POLICY}.{name} has a different value, which stays", lost=True
                )
            )
    moved = {name: spec[name] for name in misplaced if policy.get(name) is None}
    rest = {name: value for name, value in spec.items() if name not in misplaced}
    origins = {f"spec.{_POLICY}.{name}": f"spec.{name}" for name in moved}
    return Conversion({**obj, "spec": {**rest, _POLICY: {**policy, **moved}}}, tuple(notes), origins)
