"""Warns of unintended effects of a valid job: long host lists, overwritten TF_CONFIG, queues, kills during saves. Pure.

This module does not know the operator's configuration. So it computes the length of host lists with the operator's
defaults: port 2222 and no domain. The operator itself uses the real hosts, and reports a list that is too long in an
event (`TooManyReplicas`). The warnings about queues concern Kueue's handling of a job.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from tfoperator.api.fields.limits import MAX_REPLICAS
from tfoperator.api.fields.problems import Problem, member
from tfoperator.api.kueue.queues import is_multikueue, not_carried, queue_name, uncounted_devices, uncounted_types
from tfoperator.api.replicas.host_lists import HostList, too_long
from tfoperator.api.replicas.names import (
    DEFAULT_CONTAINER_NAME,
    DEFAULT_PORT,
    TF_CONFIG,
    object_name,
    parse_replica_name,
    parse_replica_type,
)
from tfoperator.api.replicas.templates import is_absent, readable_spec
from tfoperator.api.v1.choices import Network, ReplicaType
from tfoperator.api.v1.types import TFJob
from tfoperator.api.validation.checks import warning
from tfoperator.kube.views.pod_spec import DEFAULT_GRACE_SECONDS

_REPLICAS = "spec.tfReplicaSpecs"
_NUMBER = re.compile(r"\d{1,9}(\.\d+)?")

_ALWAYS_FITTING_REPLICAS = 500
"""The number of replicas whose list of hosts is never too long: a host has at most 210 characters (three names of 63,
and separators).
"""


def validate_cluster_size(job: TFJob, name: str) -> Iterator[Problem]:
    """Yield a warning if a list of hosts is so long that a program can't start with it; the length is an estimate.

    `name` is the job's name, or a text as long as its future name.
    """
    spec = job.spec
    counts = {
        replica_type: min(max(replica.desired, 0), MAX_REPLICAS)
        for key, replica in spec.tf_replica_specs.items()
        if replica is not None and (replica_type := parse_replica_type(key)) is not None
    }
    if sum(counts.values()) <= _ALWAYS_FITTING_REPLICAS:
        return
    within = f".{job.metadata.namespace or 'default'}.svc:{DEFAULT_PORT}"
    if spec.network == Network.PER_JOB:
        within = f".{name}{within}"
    hosts = {
        replica_type: HostList(count, count * len(object_name(name, replica_type, 0)[:-1] + within) + _digits(count))
        for replica_type, count in counts.items()
        if count
    }
    message = too_long(hosts, dynamic=bool(spec.enable_dynamic_worker), arguments=bool(spec.cluster_arguments))
    if message:
        yield warning("spec.tfReplicaSpecs", message)


def _digits(count: int) -> int:
    """Return the number of digits of the indexes from 0 to `count` - 1 together."""
    return count + sum(max(count - start, 0) for start in (10, 100, 1000))


def validate_tf_config(job: TFJob) -> Iterator[Problem]:
    """Yield a warning for each TF_CONFIG of a template that the operator overwrites.

    In a job with a single replica, the operator keeps the TF_CONFIG of the template, since the replica has no peers.
    """
    specs = {
        key: replica
        for key, replica in job.spec.tf_replica_specs.items()
        if replica is not None and parse_replica_type(key)
    }
    if sum(max(replica.desired, 0) for replica in specs.values()) == 1:
        return
    for key, replica in specs.items():
        containers = readable_spec(replica.template).get("containers")
        for position, container in enumerate(containers if isinstance(containers, list) else ()):
            if not isinstance(container, dict) or container.get("name") != DEFAULT_CONTAINER_NAME:
                continue
            env = container.get("env")
            for number, variable in enumerate(env if isinstance(env, list) else ()):
                if isinstance(variable, dict) and variable.get("name") == TF_CONFIG:
                    yield warning(
                        member(f"{_REPLICAS}[{key}]", f"template.spec.containers[{position}].env[{number}]"),
                        "TF_CONFIG has no effect, because the operator sets this variable for all replicas of the "
                        "job. Remove it, or give your own variable another name",
                    )


def validate_queue(job: TFJob) -> Iterator[Problem]:
    """Yield warnings about a job with a queue's label, or a job for MultiKueue; yield nothing for any other job."""
    yield from validate_multikueue(job)
    queue = queue_name(job.metadata.labels)
    if not queue:
        return
    if devices := uncounted_devices(job):
        yield warning("spec.tensorBoard.resources", uncounted_board(queue, devices))
    specs = job.spec.tf_replica_specs
    for key in uncounted_types(specs):
        yield warning(
            f"{_REPLICAS}[{key}]",
            f"is not counted by queue {queue}, because Kueue knows this type only by the name "
            f"{parse_replica_type(key)}: the pods run without quota. Rename {key} to {parse_replica_type(key)}",
        )
    for key, replica in specs.items():
        if key == ReplicaType.PS and replica is not None and is_absent(replica.template):
            yield warning(
                member(f"{_REPLICAS}[{key}]", "template"),
                f"is not set, and Kueue can't count pods without a template, so the job stays in queue {queue}: set "
                "the template",
            )


def uncounted_board(queue: str, devices: Iterable[str]) -> str:
    """Return why a job in a queue gets no TensorBoard.

    `devices` are the names of the extended resources that the TensorBoard requests.
    """
    names = ", ".join(devices)
    return (
        f"requests {names}, but the quota of queue {queue} does not count a TensorBoard, which runs longer than its "
        f"job. So the operator creates no TensorBoard. Remove {names} from spec.tensorBoard.resources; the job "
        "itself is not affected"
    )


def validate_multikueue(job: TFJob) -> Iterator[Problem]:
    """Yield warnings about a job's fields that MultiKueue doesn't copy; nothing for a job without MultiKueue."""
    if is_multikueue(job):
        for field in not_carried(job):
            yield warning(
                field, "has no effect: MultiKueue does not copy this field to the cluster in which the job runs"
            )


def validate_grace(job: TFJob) -> Iterator[Problem]:
    """Yield a warning if a replica's grace period is shorter than the duration of its last save of a checkpoint.

    The replica may be killed during a save. The duration of the last save is the metric `save_seconds` in the job's
    progress; a new job has no progress.
    """
    progress = job.status.progress
    seconds = (
        next((metric.value for metric in progress.metrics if metric.name == "save_seconds"), "") if progress else ""
    )
    kind = parse_replica_name(progress.replica)[0] if progress else None
    replica = job.spec.tf_replica_specs.get(kind) if kind else None
    if replica is None or not _NUMBER.fullmatch(seconds):
        return
    grace = readable_spec(replica.template).get("terminationGracePeriodSeconds")
    if grace is None:
        grace = DEFAULT_GRACE_SECONDS
    if isinstance(grace, int) and grace <= float(seconds):
        yield warning(
            member(f"{_REPLICAS}[{kind}]", "template.spec.terminationGracePeriodSeconds"),
            f"is {grace} s, but the last save took {float(seconds):.0f} s: a drain or a suspension would kill the "
            f"program before it has saved. Set at least {math.ceil(2 * float(seconds))} s, which is enough for a "
            "save and a step",
        )
