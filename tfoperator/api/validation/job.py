"""Finds the problems of a TFJob, each with the path of its field. Pure.

API servers refuse most of this by the CRD; the operator checks again because a job may be older than the CRD, and
`validate`, `run` and `submit` ask before an API server is involved. A job that the Go operator accepts and can run
never has an error here: probable mistakes are warnings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from tfoperator.api.names import (
    MAX_NAME_LENGTH,
    OnStraggler,
    RestartMode,
    object_name,
    parse_replica_type,
    tensorboard_name,
)
from tfoperator.api.problems import Problem, member, shown
from tfoperator.api.templates import is_absent, own_host_names
from tfoperator.api.v1.types import (
    LEAST_PROGRESS_DEADLINE,
    CleanPodPolicy,
    Network,
    OnStall,
    ReplicaSpec,
    ReplicaType,
    RestartPolicy,
    RestartScope,
    RunPolicy,
    SchedulingPolicy,
    SuccessPolicy,
    TFJob,
    TFJobSpec,
)
from tfoperator.api.validation.checkpoint import validate_checkpoint
from tfoperator.api.validation.limits import (
    INT32_MAX,
    MANAGED_BY,
    MAX_REPLICAS,
    NAME_PATTERN,
    QUANTITY_PATTERN,
    check_one_of,
    check_range,
    listed,
    warning,
)
from tfoperator.api.validation.pod_template import validate_template
from tfoperator.api.validation.restart_mode import validate_in_place
from tfoperator.api.validation.tensorboard import validate_tensorboard
from tfoperator.api.validation.thresholds import validate_thresholds
from tfoperator.api.validation.warnings import validate_cluster_size, validate_queue

_GENERATED_SUFFIX_LENGTH = 5  # the length of an API server's suffix for generateName
_REPLICAS = "spec.tfReplicaSpecs"

STOCK_PARAMETER_SERVER = (
    "is not set: it takes an operator that was started with --default-ps-image to run the stock parameter server; any "
    "other fails the job"
)
"""The warning about a parameter server without a template. It is pointless where operator and job start together."""

_NAME = re.compile(NAME_PATTERN)
_QUANTITY = re.compile(QUANTITY_PATTERN)
_SINGLE_TYPES = frozenset({ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.EVALUATOR})


def validate(job: TFJob) -> tuple[Problem, ...]:
    """Return all problems of a job (errors and warnings), defaulted or not; empty for a valid one.

    A job that couldn't be decoded yields only the reasons for that.
    """
    if job.decode_error:
        return tuple(_decode_problems(job.decode_error))
    return (
        *_validate_name(job),
        *_validate_replica_types(job.spec),
        *(
            problem
            for key, replica in job.spec.tf_replica_specs.items()
            for problem in _validate_replica(f"{_REPLICAS}[{key}]", key, replica)
        ),
        *check_one_of("spec.successPolicy", job.spec.success_policy, SuccessPolicy),
        *validate_cluster_size(job, _name(job)[1]),
        *validate_thresholds(job.spec),
        *_validate_run_policy(job.spec),
        *_validate_cluster_arguments(job.spec),
        *_validate_network(job.spec),
        *(() if job.spec.checkpoint is None else validate_checkpoint(job.spec.checkpoint)),
        *validate_tensorboard(job.spec.tensor_board),
        *validate_queue(job),
    )


def _decode_problems(decode_error: str) -> Iterator[Problem]:
    for line in decode_error.splitlines():
        field, separator, message = line.partition(": ")
        yield Problem(field, message) if separator else Problem("spec", line)


def _validate_name(job: TFJob) -> Iterator[Problem]:
    """Check the job's name, and the longest of the names that are made from it."""
    meta = job.metadata
    field, name = _name(job)
    if not name:
        yield Problem(field, "is required")
        return
    if not _NAME.fullmatch(name):
        yield Problem(
            field,
            "must consist of lower-case letters, digits and '-', start with a letter and end with a letter or digit, "
            f"but is {shown(meta.name or meta.generate_name)}",
        )
    yield from long_names(field, name, job.spec, partial(object_name, name))


def _name(job: TFJob) -> tuple[str, str]:
    """Return the field that names the job, and its name; one of the final length if an API server generates it."""
    meta = job.metadata
    if not meta.name and meta.generate_name:
        return "metadata.generateName", meta.generate_name + "x" * _GENERATED_SUFFIX_LENGTH
    return "metadata.name", meta.name


def long_names(
    field: str, name: str, spec: TFJobSpec, object_name: Callable[[ReplicaType, int], str]
) -> Iterator[Problem]:
    """Yield the problem with a job's name, in `field`, if a name from `object_name(type, index)` is too long."""
    generated = [
        object_name(replica_type, max(replica.desired - 1, 0))
        for key, replica in spec.tf_replica_specs.items()
        if replica is not None and (replica_type := parse_replica_type(key)) is not None
    ]
    if spec.tensor_board is not None:
        generated.append(tensorboard_name(name))
    longest = max([name, *generated], key=len)
    excess = len(longest) - MAX_NAME_LENGTH
    if excess > 0:
        characters = "character" if excess == 1 else "characters"
        yield Problem(
            field,
            f"is too long by {excess} {characters}: {shown(longest, 300)}, the longest name made from it, "
            f"must have at most {MAX_NAME_LENGTH} characters",
        )


def _validate_replica_types(spec: TFJobSpec) -> Iterator[Problem]:
    """Check the set of replica types, as far as they depend on each other."""
    if not spec.tf_replica_specs:
        yield Problem(_REPLICAS, f"must have at least one of {listed(ReplicaType)}")
        return
    keys = {key: parse_replica_type(key) for key in spec.tf_replica_specs}
    spelled = Counter(replica_type for replica_type in keys.values() if replica_type is not None)
    for replica_type, count in spelled.items():
        if count > 1:
            same = " and ".join(key for key, known in keys.items() if known is replica_type)
            yield Problem(_REPLICAS, f"names {replica_type} more than once: {same}")
    if ReplicaType.CHIEF in spelled and ReplicaType.MASTER in spelled:
        yield Problem(_REPLICAS, "must not have both Chief and Master: they are two names for the one that leads")
    known = len(spelled) == len(keys)
    if known and not set(spelled) & {ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.WORKER}:
        yield warning(_REPLICAS, "has neither Chief nor Worker, so nothing decides when the job has succeeded")
    if all(replica is not None and replica.replicas == 0 for replica in spec.tf_replica_specs.values()):
        yield warning(_REPLICAS, "asks for no replica at all, so there is nothing to run")


def _validate_replica(path: str, key: str, replica: ReplicaSpec | None) -> Iterator[Problem]:
    replica_type = parse_replica_type(key)
    if replica_type is None:
        yield Problem(path, f"is not a replica type; the types are {listed(ReplicaType)}")
    if replica is None:
        yield Problem(path, "must not be null")
        return
    yield from check_range(member(path, "replicas"), replica.replicas, 0, MAX_REPLICAS)
    if replica_type in _SINGLE_TYPES and replica.replicas is not None and replica.replicas > 1:
        yield warning(member(path, "replicas"), f"TensorFlow refuses a cluster with more than one {replica_type}")
    yield from check_one_of(member(path, "restartPolicy"), replica.restart_policy, RestartPolicy)
    if replica_type is ReplicaType.PS and is_absent(replica.template):
        yield warning(member(path, "template"), STOCK_PARAMETER_SERVER)
    else:
        yield from validate_template(member(path, "template"), replica.template)


def _validate_run_policy(spec: TFJobSpec) -> Iterator[Problem]:
    policy, path = spec.policy, "spec.runPolicy"
    yield from check_one_of(member(path, "cleanPodPolicy"), policy.clean_pod_policy, CleanPodPolicy)
    yield from check_range(member(path, "ttlSecondsAfterFinished"), policy.ttl_seconds_after_finished, 0, INT32_MAX)
    deadline = policy.active_deadline_seconds
    yield from check_range(member(path, "activeDeadlineSeconds"), deadline, 0, INT32_MAX)
    if deadline == 0:
        yield warning(
            member(path, "activeDeadlineSeconds"), "ends the job as soon as it starts; leave it out for no deadline"
        )
    yield from check_range(member(path, "startDeadlineSeconds"), policy.start_deadline_seconds, 1, INT32_MAX)
    yield from check_range(member(path, "backoffLimit"), policy.backoff_limit, 0, INT32_MAX)
    yield from check_one_of(member(path, "restartScope"), policy.restart_scope, RestartScope)
    yield from check_one_of(member(path, "restartMode"), policy.restart_mode, RestartMode)
    if policy.restart_mode == RestartMode.IN_PLACE:
        yield from validate_in_place(member(path, "restartMode"), spec, policy)
    yield from _validate_progress_deadline(path, policy)
    if policy.restart_scope == RestartScope.JOB and (spec.enable_dynamic_worker or spec.max_failed_workers):
        yield warning(
            member(path, "restartScope"),
            "Job is for workers that can't go on without each other, and this job says that they can",
        )
    if policy.managed_by is not None and policy.managed_by not in MANAGED_BY:
        yield Problem(
            member(path, "managedBy"), f"must be {' or '.join(MANAGED_BY)}, but is {shown(policy.managed_by)}"
        )
    if policy.scheduling_policy is not None:
        yield from _validate_scheduling(member(path, "schedulingPolicy"), policy.scheduling_policy, _total(spec))


def _validate_progress_deadline(path: str, policy: RunPolicy) -> Iterator[Problem]:
    deadline = policy.progress_deadline_seconds
    yield from check_range(member(path, "progressDeadlineSeconds"), deadline, LEAST_PROGRESS_DEADLINE, INT32_MAX)
    yield from check_one_of(member(path, "onStall"), policy.on_stall, OnStall)
    yield from check_one_of(member(path, "onStraggler"), policy.on_straggler, OnStraggler)
    if policy.on_stall and deadline is None:
        yield warning(member(path, "onStall"), "has no effect without progressDeadlineSeconds")
    if policy.on_stall == OnStall.RESTART and deadline is not None and policy.backoff_limit is None:
        yield warning(
            member(path, "onStall"),
            "starts a job that always stalls again for ever, because backoffLimit is not set",
        )


def _validate_cluster_arguments(spec: TFJobSpec) -> Iterator[Problem]:
    if spec.cluster_arguments and spec.enable_dynamic_worker:
        yield warning(
            "spec.clusterArguments",
            "names the workers that there are when a pod is made; those that enableDynamicWorker lets come later are "
            "unknown to it",
        )


def _validate_network(spec: TFJobSpec) -> Iterator[Problem]:
    yield from check_one_of("spec.network", spec.network, Network)
    if spec.network != Network.PER_JOB:
        return
    for key, replica in spec.tf_replica_specs.items():
        for name in own_host_names(replica.template) if replica is not None else ():
            yield warning(
                f"{_REPLICAS}[{key}].template.spec.{name}",
                f"has no effect: with spec.network {Network.PER_JOB} the operator gives each pod its host name",
            )


def _validate_scheduling(path: str, policy: SchedulingPolicy, total: int) -> Iterator[Problem]:
    yield from check_range(member(path, "minAvailable"), policy.min_available, 0, INT32_MAX)
    yield from check_range(member(path, "scheduleTimeoutSeconds"), policy.schedule_timeout_seconds, 0, INT32_MAX)
    for resource, quantity in (policy.min_resources or {}).items():
        if not _QUANTITY.fullmatch(str(quantity)):
            yield Problem(
                member(path, f"minResources[{resource}]"),
                f"must be a quantity such as 4, 500m or 8Gi, but is {shown(quantity)}",
            )
    if policy.min_available is not None and total < policy.min_available <= INT32_MAX:
        yield warning(
            member(path, "minAvailable"),
            f"is {policy.min_available}, but the job has only {total} replicas, so it will never be scheduled",
        )


def _total(spec: TFJobSpec) -> int:
    return sum(max(replica.desired, 0) for replica in spec.tf_replica_specs.values() if replica is not None)
