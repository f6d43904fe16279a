"""Says what is wrong with a TFJob, every message with the path of its field. Pure.

The CRD refuses most of this at the door; the operator asks again because a job may be older than the CRD, and
`validate`, `run` and `submit` ask before an API server is involved. What the Go operator accepts and can run is never
an error here: whatever merely looks like a mistake is a warning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial

import msgspec

from tfoperator.api.names import (
    DEFAULT_CONTAINER_NAME,
    MAX_NAME_LENGTH,
    object_name,
    parse_replica_type,
    tensorboard_name,
)
from tfoperator.api.problems import Problem, Severity, member, shown
from tfoperator.api.structure import type_problems
from tfoperator.api.templates import Container, PodTemplate, decode_template, is_absent
from tfoperator.api.tensorboard_rules import validate_tensorboard
from tfoperator.api.threshold_rules import validate_thresholds
from tfoperator.api.v1.types import (
    Checkpoint,
    CleanPodPolicy,
    ReplicaSpec,
    ReplicaType,
    RestartPolicy,
    RunPolicy,
    SchedulingPolicy,
    SuccessPolicy,
    TFJob,
    TFJobSpec,
)

__all__ = [
    "INT32_MAX",
    "MANAGED_BY",
    "MANAGED_BY_MULTIKUEUE",
    "MANAGED_BY_OPERATOR",
    "MAX_PATH_LENGTH",
    "MAX_REPLICAS",
    "MOUNT_PATH_PATTERN",
    "NAME_PATTERN",
    "QUANTITY_PATTERN",
    "long_names",
    "validate",
]

MANAGED_BY_OPERATOR = "kubeflow.org/training-operator"
MANAGED_BY_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
MANAGED_BY = (MANAGED_BY_OPERATOR, MANAGED_BY_MULTIKUEUE)
"""Who may be in charge of a job, as in the Go operator's webhook."""

NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""DNS-1035: a job's name begins the names of its services."""

INT32_MAX = 2**31 - 1

MAX_REPLICAS = 10_000
"""The most replicas of one type. TF_CONFIG names every replica in every pod, and at some ten thousand host names it
outgrows the 1.5 MiB that an API server stores for an object."""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""A resource quantity as API servers write the pattern in their own schemas."""

MOUNT_PATH_PATTERN = "^/+[^/:][^:]*$"
"""An absolute path below the root. Kubernetes doesn't allow colons in mount paths."""

MAX_PATH_LENGTH = 1024
"""Of a mount path; systems take up to 4096 bytes, and a program appends to it."""

_GENERATED_SUFFIX_LENGTH = 5  # what an API server appends to generateName
_REPLICAS = "spec.tfReplicaSpecs"
_NAME = re.compile(NAME_PATTERN)
_MOUNT_PATH = re.compile(MOUNT_PATH_PATTERN)
_QUANTITY = re.compile(QUANTITY_PATTERN)
_CONTAINER_NAME = re.compile("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_SINGLE = frozenset({ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.EVALUATOR})


def validate(job: TFJob) -> tuple[Problem, ...]:
    """Everything that is wrong with a job, errors and warnings, defaulted or not; empty for a good one.

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
        *_one_of("spec.successPolicy", job.spec.success_policy, SuccessPolicy),
        *validate_thresholds(job.spec),
        *_validate_run_policy(job.spec),
        *_validate_cluster_arguments(job.spec),
        *_validate_checkpoint(job.spec.checkpoint),
        *validate_tensorboard(job.spec.tensor_board),
    )


def _decode_problems(decode_error: str) -> Iterator[Problem]:
    for line in decode_error.splitlines():
        field, separator, message = line.partition(": ")
        yield Problem(field, message) if separator else Problem("spec", line)


def _validate_name(job: TFJob) -> Iterator[Problem]:
    """The job's name, and the longest of the names that are made from it."""
    meta = job.metadata
    field, name = ("metadata.name", meta.name)
    if not name and meta.generate_name:
        field, name = ("metadata.generateName", meta.generate_name + "x" * _GENERATED_SUFFIX_LENGTH)
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


def long_names(
    field: str, name: str, spec: TFJobSpec, object_name: Callable[[ReplicaType, int], str]
) -> Iterator[Problem]:
    """What is wrong with a job's name, in `field`, if one made from it by `object_name(type, index)` is too long."""
    generated = [
        object_name(replica_type, max((1 if replica.replicas is None else replica.replicas) - 1, 0))
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
    """Which replica types there are, as far as they depend on each other."""
    if not spec.tf_replica_specs:
        yield Problem(_REPLICAS, f"must have at least one of {_listed(ReplicaType)}")
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
        yield _warning(_REPLICAS, "has neither Chief nor Worker, so nothing decides when the job has succeeded")
    if all(replica is not None and replica.replicas == 0 for replica in spec.tf_replica_specs.values()):
        yield _warning(_REPLICAS, "asks for no replica at all, so there is nothing to run")


def _validate_replica(path: str, key: str, replica: ReplicaSpec | None) -> Iterator[Problem]:
    replica_type = parse_replica_type(key)
    if replica_type is None:
        yield Problem(path, f"is not a replica type; the types are {_listed(ReplicaType)}")
    if replica is None:
        yield Problem(path, "must not be null")
        return
    yield from _in_range(member(path, "replicas"), replica.replicas, 0, MAX_REPLICAS)
    if replica_type in _SINGLE and replica.replicas is not None and replica.replicas > 1:
        yield _warning(member(path, "replicas"), f"TensorFlow refuses a cluster with more than one {replica_type}")
    yield from _one_of(member(path, "restartPolicy"), replica.restart_policy, RestartPolicy)
    if replica_type is not ReplicaType.PS or not is_absent(replica.template):
        # A parameter server without a template is the operator's stock one, if it has an image for that.
        yield from _validate_template(member(path, "template"), replica.template)


def _validate_template(path: str, raw: msgspec.Raw) -> Iterator[Problem]:
    if is_absent(raw):
        yield Problem(path, "is required")
        return
    try:
        template = decode_template(raw)
    except msgspec.ValidationError as error:
        problems = type_problems(msgspec.json.decode(raw), PodTemplate, path)
        yield from problems or [Problem(path, str(error))]
        return
    spec = member(path, "spec")
    if template.spec.restart_policy:
        yield _warning(member(spec, "restartPolicy"), "has no effect: the replica's own restartPolicy holds")
    yield from _validate_containers(spec, template)


def _validate_containers(path: str, template: PodTemplate) -> Iterator[Problem]:
    containers = template.spec.containers
    if not containers:
        yield Problem(member(path, "containers"), "must have at least one container")
        return
    names: set[str] = set()
    for field, group in (("initContainers", template.spec.init_containers), ("containers", containers)):
        for position, container in enumerate(group):
            yield from _validate_container(f"{path}.{field}[{position}]", container, names)
    if all(container.name != DEFAULT_CONTAINER_NAME for container in containers):
        # Whether a user forgot the container or only called it something else is told by what there is.
        there = ", ".join(shown(container.name) for container in containers)
        yield Problem(
            member(path, "containers"), f"one must be named {shown(DEFAULT_CONTAINER_NAME)}, but there is only {there}"
        )


def _validate_container(path: str, container: Container, names: set[str]) -> Iterator[Problem]:
    if not container.name:
        yield Problem(member(path, "name"), "is required")
    elif len(container.name) > MAX_NAME_LENGTH or not _CONTAINER_NAME.fullmatch(container.name):
        yield Problem(
            member(path, "name"),
            f"must consist of at most {MAX_NAME_LENGTH} lower-case letters, digits and '-' and neither start nor end "
            f"with '-', but is {shown(container.name)}",
        )
    elif container.name in names:
        yield Problem(member(path, "name"), f"{shown(container.name)} is the name of another container, too")
    names.add(container.name)
    if not container.image.strip():
        yield Problem(member(path, "image"), "is required")
    for position, port in enumerate(container.ports):
        yield from _in_range(f"{path}.ports[{position}].containerPort", port.container_port, 1, 65535)


def _validate_run_policy(spec: TFJobSpec) -> Iterator[Problem]:
    policy = spec.run_policy or RunPolicy()
    path = "spec.runPolicy"
    yield from _one_of(member(path, "cleanPodPolicy"), policy.clean_pod_policy, CleanPodPolicy)
    yield from _in_range(member(path, "ttlSecondsAfterFinished"), policy.ttl_seconds_after_finished, 0, INT32_MAX)
    deadline = policy.active_deadline_seconds
    yield from _in_range(member(path, "activeDeadlineSeconds"), deadline, 0, INT32_MAX)
    if deadline == 0:
        yield _warning(
            member(path, "activeDeadlineSeconds"), "ends the job as soon as it starts; leave it out for no deadline"
        )
    yield from _in_range(member(path, "backoffLimit"), policy.backoff_limit, 0, INT32_MAX)
    if policy.managed_by is not None and policy.managed_by not in MANAGED_BY:
        yield Problem(
            member(path, "managedBy"), f"must be {' or '.join(MANAGED_BY)}, but is {shown(policy.managed_by)}"
        )
    if policy.scheduling_policy is not None:
        yield from _validate_scheduling(member(path, "schedulingPolicy"), policy.scheduling_policy, _total(spec))


def _validate_cluster_arguments(spec: TFJobSpec) -> Iterator[Problem]:
    if spec.cluster_arguments and spec.enable_dynamic_worker:
        yield _warning(
            "spec.clusterArguments",
            "names the workers that there are when a pod is made; those that enableDynamicWorker lets come later are "
            "unknown to it",
        )


def _validate_checkpoint(checkpoint: Checkpoint | None) -> Iterator[Problem]:
    if checkpoint is None:
        return
    path = "spec.checkpoint"
    yield from _validate_volume(member(path, "volume"), checkpoint.volume)
    mount_path = checkpoint.mount_path
    if not mount_path:
        yield Problem(member(path, "mountPath"), "is required")
    elif not _MOUNT_PATH.fullmatch(mount_path):
        yield Problem(
            member(path, "mountPath"),
            f"must be an absolute path, not / itself and without colons, but is {shown(mount_path)}",
        )
    elif len(mount_path) > MAX_PATH_LENGTH:
        yield Problem(member(path, "mountPath"), f"must have at most {MAX_PATH_LENGTH} characters")


def _validate_volume(path: str, raw: msgspec.Raw) -> Iterator[Problem]:
    example = "such as persistentVolumeClaim: {claimName: checkpoints}"
    if is_absent(raw):
        yield Problem(path, f"is required: a volume as in a pod's spec, {example}")
        return
    volume = msgspec.json.decode(raw)
    if not isinstance(volume, dict):
        yield Problem(path, f"must be an object, {example}")
        return
    if "name" in volume:
        yield _warning(member(path, "name"), "has no effect: the operator names the volume")
    kinds = [kind for kind, source in volume.items() if kind != "name" and source is not None]
    if len(kinds) != 1:
        found = f", but has {' and '.join(kinds)}" if kinds else ""
        yield Problem(path, f"must have one kind of volume, {example}{found}")
    elif kinds == ["emptyDir"]:
        yield _warning(path, "an emptyDir is each pod's own and goes with it: its checkpoints will not be found again")


def _validate_scheduling(path: str, policy: SchedulingPolicy, total: int) -> Iterator[Problem]:
    yield from _in_range(member(path, "minAvailable"), policy.min_available, 0, INT32_MAX)
    yield from _in_range(member(path, "scheduleTimeoutSeconds"), policy.schedule_timeout_seconds, 0, INT32_MAX)
    for resource, quantity in (policy.min_resources or {}).items():
        if not _QUANTITY.fullmatch(str(quantity)):
            yield Problem(
                member(path, f"minResources[{resource}]"),
                f"must be a quantity such as 4, 500m or 8Gi, but is {shown(quantity)}",
            )
    if policy.min_available is not None and total < policy.min_available <= INT32_MAX:
        yield _warning(
            member(path, "minAvailable"),
            f"is {policy.min_available}, but the job has only {total} replicas, so it will never be scheduled",
        )


def _one_of(path: str, value: str | None, options: type[StrEnum]) -> Iterator[Problem]:
    # The empty string is the Go operator's "unset".
    if value and value not in set(options):
        yield Problem(path, f"must be one of {_listed(options)}, but is {shown(value)}")


def _in_range(path: str, value: int | None, low: int, high: int) -> Iterator[Problem]:
    if value is None or low <= value <= high:
        return
    limit = f"must be {low} or more" if value < low else f"must be {high} or less"
    yield Problem(path, f"{limit}, but is {value if abs(value) < 10**20 else 'far beyond that'}")


def _total(spec: TFJobSpec) -> int:
    replicas = (r for r in spec.tf_replica_specs.values() if r is not None)
    return sum(1 if replica.replicas is None else max(replica.replicas, 0) for replica in replicas)


def _listed(options: type[StrEnum]) -> str:
    return ", ".join(option for option in options if option)


def _warning(path: str, message: str) -> Problem:
    return Problem(path, message, Severity.WARNING)
