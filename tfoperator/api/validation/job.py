"""Finds the problems of a TFJob, each with the path of its field. Pure.

API servers refuse most of these problems by the CRD. The operator checks again because a job may be older than the CRD.
The commands `validate`, `run` and `submit` check a job before they send it to an API server. A job that the Go operator
accepts and can run never has an error here: probable mistakes are warnings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from tfoperator.api.fields.limits import MAX_NAME_LENGTH, NAME_PATTERN
from tfoperator.api.fields.problems import Problem, member, shown
from tfoperator.api.replicas.data_service import LONGEST_MEMBER
from tfoperator.api.replicas.names import LONGEST_SUFFIX, object_name, parse_replica_type, tensorboard_name
from tfoperator.api.replicas.templates import is_absent
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.run_policy import SchedulingPolicy
from tfoperator.api.v1.types import ReplicaSpec, TFJob, TFJobSpec
from tfoperator.api.validation import rules
from tfoperator.api.validation.checkpoint import validate_checkpoint
from tfoperator.api.validation.checks import listed, warning
from tfoperator.api.validation.data_service import validate_data_service
from tfoperator.api.validation.declared import field_problems
from tfoperator.api.validation.pod_template import validate_template
from tfoperator.api.validation.tensorboard import validate_tensorboard
from tfoperator.api.validation.warnings import validate_cluster_size, validate_queue

_GENERATED_SUFFIX_LENGTH = 5  # the length of an API server's suffix for generateName
_REPLICAS = "spec.tfReplicaSpecs"

STOCK_PARAMETER_SERVER = (
    "is not set, so the job fails unless the operator has --default-ps-image, the image for parameter servers without "
    "a template"
)
"""The warning about a parameter server without a template. `tfoperator run` leaves this warning out, because the
operator of a run has an image for such a parameter server.
"""

_NAME = re.compile(NAME_PATTERN)
_SINGLE_TYPES = frozenset({ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.EVALUATOR})


def validate(job: TFJob) -> tuple[Problem, ...]:
    """Return all problems (errors and warnings) of a job; the job's defaults may be set or not.

    If the job couldn't be decoded, return only the reasons why.
    """
    if job.decode_error:
        return tuple(_decode_problems(job.decode_error))
    spec = job.spec
    rules_of_fields: dict[str, Iterable[Problem]] = {
        "tfReplicaSpecs": chain(_validate_replica_types(spec), _validate_replicas(spec)),
        "successPolicy": validate_cluster_size(job, _name(job)[1]),
        "maxFailedWorkers": rules.thresholds(spec),
        "runPolicy": _validate_run_policy(spec),
        "elasticPolicy": _validate_elastic(spec),
        "clusterArguments": rules.cluster_arguments(spec),
        "network": rules.host_names(spec),
        "checkpoint": validate_checkpoint(spec.checkpoint),
        "tensorBoard": validate_tensorboard(spec.tensor_board),
        "dataService": validate_data_service(spec),
    }
    return (*_validate_name(job), *field_problems("spec", spec, rules_of_fields), *validate_queue(job))


def _validate_elastic(spec: TFJobSpec) -> Iterator[Problem]:
    if spec.elastic_policy is not None:
        yield from field_problems(rules.ELASTIC, spec.elastic_policy)
        yield from rules.elastic(spec)


def _decode_problems(decode_error: str) -> Iterator[Problem]:
    for line in decode_error.splitlines():
        field, separator, message = line.partition(": ")
        yield Problem(field, message) if separator else Problem("spec", line)


def _validate_name(job: TFJob) -> Iterator[Problem]:
    """Check the job's name, and the longest of the object names that contain it."""
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
    if len(name) > MAX_NAME_LENGTH - LONGEST_SUFFIX:
        yield from long_names(field, name, job.spec, partial(object_name, name))


def _name(job: TFJob) -> tuple[str, str]:
    """Return the field with the job's name, and the name; for a generated name, return a text of the same length."""
    meta = job.metadata
    if not meta.name and meta.generate_name:
        return "metadata.generateName", meta.generate_name + "x" * _GENERATED_SUFFIX_LENGTH
    return "metadata.name", meta.name


def long_names(
    field: str, name: str, spec: TFJobSpec, object_name: Callable[[ReplicaType, int], str]
) -> Iterator[Problem]:
    """Yield a problem with a job's name if the name of one of the job's objects is too long.

    `field` is the path of the job's name. `object_name` returns the name of a replica's objects.
    """
    generated = [
        object_name(replica_type, max(replica.desired - 1, 0))
        for key, replica in spec.tf_replica_specs.items()
        if replica is not None and (replica_type := parse_replica_type(key)) is not None
    ]
    if spec.tensor_board is not None:
        generated.append(tensorboard_name(name))
    if spec.data_service is not None:
        generated.append(name + LONGEST_MEMBER)
    longest = max([name, *generated], key=len)
    excess = len(longest) - MAX_NAME_LENGTH
    if excess > 0:
        characters = "character" if excess == 1 else "characters"
        yield Problem(
            field,
            f"is too long by {excess} {characters}: {shown(longest, 300)}, the longest name of an object of the job, "
            f"must have at most {MAX_NAME_LENGTH} characters",
        )


def _validate_replica_types(spec: TFJobSpec) -> Iterator[Problem]:
    """Check the replica types that exclude or need each other."""
    if not spec.tf_replica_specs:
        yield Problem(_REPLICAS, f"must have at least one of {listed(ReplicaType)}")
        return
    keys = {key: parse_replica_type(key) for key in spec.tf_replica_specs}
    spelled = Counter(replica_type for replica_type in keys.values() if replica_type is not None)
    for replica_type, count in spelled.items():
        if count > 1:
            same = " and ".join(key for key, kind in keys.items() if kind is replica_type)
            yield Problem(_REPLICAS, f"names {replica_type} more than once: {same}")
    if ReplicaType.CHIEF in spelled and ReplicaType.MASTER in spelled:
        yield Problem(_REPLICAS, "must not have both Chief and Master: they are two names for the same replica type")
    all_types_exist = len(spelled) == len(keys)
    if all_types_exist and not set(spelled) & {ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.WORKER}:
        yield warning(_REPLICAS, "has neither Chief nor Worker, so nothing decides when the job has succeeded")
    if all(replica is not None and replica.replicas == 0 for replica in spec.tf_replica_specs.values()):
        yield warning(_REPLICAS, "has no replicas: a job without replicas has nothing to run")


def _validate_replicas(spec: TFJobSpec) -> Iterator[Problem]:
    for key, replica in spec.tf_replica_specs.items():
        yield from _validate_replica(f"{_REPLICAS}[{key}]", key, replica)


def _validate_replica(path: str, key: str, replica: ReplicaSpec | None) -> Iterator[Problem]:
    replica_type = parse_replica_type(key)
    if replica_type is None:
        yield Problem(path, f"is not a replica type; the types are {listed(ReplicaType)}")
    if replica is None:
        yield Problem(path, "must not be null")
        return
    rules_of_fields = {
        "replicas": _validate_number(path, replica_type, replica),
        "template": _validate_template(path, replica_type, replica),
    }
    yield from field_problems(path, replica, rules_of_fields)


def _validate_number(path: str, replica_type: ReplicaType | None, replica: ReplicaSpec) -> Iterator[Problem]:
    if replica_type in _SINGLE_TYPES and replica.replicas is not None and replica.replicas > 1:
        yield warning(member(path, "replicas"), f"TensorFlow refuses a cluster with more than one {replica_type}")


def _validate_template(path: str, replica_type: ReplicaType | None, replica: ReplicaSpec) -> Iterator[Problem]:
    if replica_type is ReplicaType.PS and is_absent(replica.template):
        yield warning(member(path, "template"), STOCK_PARAMETER_SERVER)
    else:
        yield from validate_template(member(path, "template"), replica.template)


def _validate_run_policy(spec: TFJobSpec) -> Iterator[Problem]:
    policy, path = spec.run_policy, "spec.runPolicy"
    if policy is None:
        return
    rules_of_fields = {
        "activeDeadlineSeconds": rules.ends_at_once(policy),
        "restartMode": rules.in_place_mode(spec),
        "onStraggler": chain(rules.stalls(policy), rules.whole_job_restarts(spec)),
        "schedulingPolicy": _validate_scheduling(member(path, "schedulingPolicy"), policy.scheduling_policy, spec),
    }
    yield from field_problems(path, policy, rules_of_fields)


def _validate_scheduling(path: str, policy: SchedulingPolicy | None, spec: TFJobSpec) -> Iterator[Problem]:
    if policy is not None:
        yield from field_problems(path, policy)
        yield from rules.never_scheduled(policy, spec)
