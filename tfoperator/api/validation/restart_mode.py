"""Finds what contradicts `runPolicy.restartMode: InPlace` in a job. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfoperator.api.problems import Problem
from tfoperator.api.templates import restarts_in_pod
from tfoperator.api.v1.types import ReplicaSpec, RestartPolicy, RestartScope, RunPolicy, TFJobSpec
from tfoperator.api.validation.limits import warning

IN_PLACE_TOGETHER = "InPlace and restartScope Job contradict each other"


def validate_in_place(path: str, spec: TFJobSpec, policy: RunPolicy) -> Iterator[Problem]:
    """Yield the problems of a job whose restart mode, at `path`, is InPlace."""
    if policy.restart_scope == RestartScope.JOB:
        yield Problem(path, IN_PLACE_TOGETHER)
    policies = {replica.restart_policy for replica in spec.tf_replica_specs.values() if replica is not None}
    if policies.isdisjoint({RestartPolicy.EXIT_CODE, RestartPolicy.ON_FAILURE}):
        yield warning(path, "InPlace has no effect: no replica type has restartPolicy ExitCode or OnFailure")
    for key, replica in spec.tf_replica_specs.items():
        if replica is not None and _restarts_itself(replica):
            yield Problem(
                f"spec.tfReplicaSpecs[{key}].template.spec.containers",
                "tensorflow must not have a restartPolicy or restartPolicyRules of its own: with runPolicy.restartMode "
                "InPlace the operator sets them",
            )


def _restarts_itself(replica: ReplicaSpec) -> bool:
    try:
        return restarts_in_pod(replica.template)
    except msgspec.DecodeError:
        return False  # which is another problem
