"""Finds the problems of a job's thresholds: the numbers of workers that must succeed and that may fail. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfoperator.api.int_or_percent import PERCENT_PATTERN, POSITIVE_PERCENT_PATTERN, IntOrPercent
from tfoperator.api.names import parse_replica_type
from tfoperator.api.problems import Problem, shown
from tfoperator.api.v1.types import CleanPodPolicy, ReplicaSpec, ReplicaType, RestartPolicy, SuccessPolicy, TFJobSpec
from tfoperator.api.validation.limits import warning

CONTRADICTION = "minSucceededWorkers and successPolicy AllWorkers contradict each other"

_MINIMUM, _MAXIMUM = "spec.minSucceededWorkers", "spec.maxFailedWorkers"


def validate_thresholds(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield errors in thresholds, and warnings about thresholds that can't have their apparent meaning."""
    yield from _validate_value(_MINIMUM, spec.min_succeeded_workers, 1, POSITIVE_PERCENT_PATTERN)
    yield from _validate_value(_MAXIMUM, spec.max_failed_workers, 0, PERCENT_PATTERN)
    workers = [
        replica
        for key, replica in spec.tf_replica_specs.items()
        if parse_replica_type(key) is ReplicaType.WORKER and replica is not None
    ]
    for path, value in ((_MINIMUM, spec.min_succeeded_workers), (_MAXIMUM, spec.max_failed_workers)):
        if value is not None and not workers:
            yield warning(path, "has no effect: the job has no workers")
    if spec.min_succeeded_workers is not None:
        yield from _minimum_in_context(spec, spec.min_succeeded_workers, workers)
    if spec.max_failed_workers is not None:
        for worker in workers:
            if worker.restart_policy in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE):
                message = f"has no effect: under {worker.restart_policy} a worker that fails is always started again"
                yield warning(_MAXIMUM, message)


def _validate_value(path: str, value: IntOrPercent | None, least: int, pattern: str) -> Iterator[Problem]:
    if value is None:
        return
    good = value >= least if isinstance(value, int) else re.fullmatch(pattern, value, re.ASCII) is not None
    if not good:
        yield Problem(
            path, f'must be a number from {least} or a percentage from "{least}%" to "100%", but is {shown(value)}'
        )


def _minimum_in_context(spec: TFJobSpec, minimum: IntOrPercent, workers: list[ReplicaSpec]) -> Iterator[Problem]:
    if spec.success_policy == SuccessPolicy.ALL_WORKERS:
        yield Problem(_MINIMUM, CONTRADICTION)
    for worker in workers:
        if isinstance(minimum, int) and minimum > worker.desired:
            yield warning(_MINIMUM, f"is {minimum}, but there are {worker.desired} workers: it means all of them")
    if spec.policy.clean_pod_policy not in (CleanPodPolicy.ALL, CleanPodPolicy.RUNNING):
        message = "leaves the other workers running after the job's success: cleanPodPolicy Running stops them"
        yield warning(_MINIMUM, message)
