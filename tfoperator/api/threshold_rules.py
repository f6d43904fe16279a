"""Says what is wrong with a job's thresholds: how many workers must succeed, and how many may fail. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfoperator.api.names import parse_replica_type
from tfoperator.api.problems import Problem, Severity, shown
from tfoperator.api.shares import PERCENT_PATTERN, POSITIVE_PERCENT_PATTERN, Share
from tfoperator.api.v1.types import (
    CleanPodPolicy,
    ReplicaSpec,
    ReplicaType,
    RestartPolicy,
    SuccessPolicy,
    TFJobSpec,
)

__all__ = ["CONTRADICTION", "validate_thresholds"]

CONTRADICTION = "minSucceededWorkers and successPolicy AllWorkers contradict each other"

_MINIMUM, _MAXIMUM = "spec.minSucceededWorkers", "spec.maxFailedWorkers"


def validate_thresholds(spec: TFJobSpec) -> Iterator[Problem]:
    """Errors, and warnings about thresholds that can't mean what they say."""
    yield from _validate_share(_MINIMUM, spec.min_succeeded_workers, 1, POSITIVE_PERCENT_PATTERN)
    yield from _validate_share(_MAXIMUM, spec.max_failed_workers, 0, PERCENT_PATTERN)
    workers = [replica for key, replica in spec.tf_replica_specs.items() if _is_worker(key) and replica is not None]
    for path, share in ((_MINIMUM, spec.min_succeeded_workers), (_MAXIMUM, spec.max_failed_workers)):
        if share is not None and not workers:
            yield Problem(path, "has no effect: the job has no workers", Severity.WARNING)
    if spec.min_succeeded_workers is not None:
        yield from _minimum_in_context(spec, spec.min_succeeded_workers, workers)
    if spec.max_failed_workers is not None:
        for worker in workers:
            if worker.restart_policy in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE):
                message = f"has no effect: under {worker.restart_policy} a worker that fails is always started again"
                yield Problem(_MAXIMUM, message, Severity.WARNING)


def _validate_share(path: str, share: Share | None, least: int, pattern: str) -> Iterator[Problem]:
    if share is None:
        return
    good = share >= least if isinstance(share, int) else re.fullmatch(pattern, share, re.ASCII) is not None
    if not good:
        yield Problem(
            path, f'must be a number from {least} or a share from "{least}%" to "100%", but is {shown(share)}'
        )


def _minimum_in_context(spec: TFJobSpec, share: Share, workers: list[ReplicaSpec]) -> Iterator[Problem]:
    if spec.success_policy == SuccessPolicy.ALL_WORKERS:
        yield Problem(_MINIMUM, CONTRADICTION)
    for worker in workers:
        count = 1 if worker.replicas is None else worker.replicas
        if isinstance(share, int) and share > count:
            yield Problem(
                _MINIMUM, f"is {share}, but there are {count} workers: it means all of them", Severity.WARNING
            )
    policy = spec.run_policy.clean_pod_policy if spec.run_policy is not None else None
    if policy not in (CleanPodPolicy.ALL, CleanPodPolicy.RUNNING):
        message = "leaves the other workers running after the job's success: cleanPodPolicy Running stops them"
        yield Problem(_MINIMUM, message, Severity.WARNING)


def _is_worker(key: str) -> bool:
    return parse_replica_type(key) is ReplicaType.WORKER
