"""Fills in the defaults of a TFJob.

The function is pure, and it accepts any input: invalid values stay as they are, and validation reports them. API
servers set most defaults by the CRD. The controller sets the defaults in memory, too, as the Go operator does, because
a job may be older than the CRD. The controller adds the template's default port when it creates a pod, and not here. So
templates need not be decoded here.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from tfoperator.api.replicas.names import parse_replica_type
from tfoperator.api.v1.choices import RestartPolicy, RestartScope, SuccessPolicy
from tfoperator.api.v1.parts.run_policy import LEAST_PROGRESS_DEADLINE
from tfoperator.api.v1.types import ReplicaSpec, TFJob


def default(job: TFJob) -> TFJob:
    """Return the same job with every default filled in; applying it twice changes nothing.

    Replica keys get their standard spelling, `replicas` 1, `restartPolicy` Never, `suspend` false, `successPolicy` "".
    An empty string counts as unset, as in the Go operator. A null replica spec stays null. An unset `cleanPodPolicy`
    stays unset, because an unset policy has a meaning that no value has. An unset `network` stays unset, too: the
    operator chooses its value. A `progressDeadlineSeconds` below the minimum, which an older CRD allowed, is raised to
    the minimum. The replicas of a job with an `elasticPolicy` restart together (`restartScope: Job`).
    """
    spec = job.spec
    return msgspec.structs.replace(
        job,
        spec=msgspec.structs.replace(
            spec,
            tf_replica_specs={
                key: _default_replica(replica)
                for key, replica in normalise_replica_types(spec.tf_replica_specs).items()
            },
            run_policy=msgspec.structs.replace(
                spec.policy,
                clean_pod_policy=spec.policy.clean_pod_policy or None,
                suspend=spec.suspended,
                progress_deadline_seconds=_progress_deadline(spec.policy.progress_deadline_seconds),
                restart_scope=spec.policy.restart_scope or (RestartScope.JOB if spec.elastic_policy else None),
            ),
            success_policy=spec.success_policy or SuccessPolicy.DEFAULT,
            enable_dynamic_worker=bool(spec.enable_dynamic_worker),
            cluster_arguments=bool(spec.cluster_arguments),
            network=spec.network or None,
        ),
    )


def _progress_deadline(seconds: int | None) -> int | None:
    """Return a stored deadline; if it is below the minimum, which an older CRD allowed, return the minimum.

    Values below 1 were never allowed by a CRD: they stay as they are, and are errors.
    """
    return seconds if seconds is None or seconds < 1 else max(seconds, LEAST_PROGRESS_DEADLINE)


def normalise_replica_types(specs: dict[str, ReplicaSpec | None]) -> dict[str, ReplicaSpec | None]:
    """Give the known replica types their standard spelling (`worker` becomes `Worker`).

    Unknown keys, and keys that would become equal, stay as they are, so that nothing is dropped silently.
    """
    proper = {key: parse_replica_type(key) for key in specs}
    spelled = Counter(replica_type for replica_type in proper.values() if replica_type is not None)
    return {
        key if replica_type is None or spelled[replica_type] > 1 else replica_type: specs[key]
        for key, replica_type in proper.items()
    }


def _default_replica(replica: ReplicaSpec | None) -> ReplicaSpec | None:
    if replica is None:
        return None
    return msgspec.structs.replace(
        replica,
        replicas=1 if replica.replicas is None else replica.replicas,
        restart_policy=replica.restart_policy or RestartPolicy.NEVER,
    )
