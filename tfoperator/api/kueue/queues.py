"""Recognizes jobs in a queue of Kueue, and the parts of these jobs that Kueue can't count. Pure.

Kueue finds the jobs by a label. It suspends a job (`runPolicy.suspend`) until its queue has enough quota. For each job
Kueue keeps a Workload, which contains the reason why the job waits. Kueue finds keys in `tfReplicaSpecs` only in their
exact spelling; this operator ignores upper and lower case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tfoperator.api.fields.field import GO_OPERATOR, declared
from tfoperator.api.fields.limits import MANAGED_BY_MULTIKUEUE
from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.api.pods.rules.resources import is_native
from tfoperator.api.replicas.names import LABEL_PREFIX, parse_replica_type
from tfoperator.api.v1.choices import OnStall, OnStraggler, RestartMode, RestartScope
from tfoperator.api.v1.parts.run_policy import RunPolicy
from tfoperator.api.v1.types import TFJob, TFJobSpec

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""This label on a job names the job's LocalQueue."""

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""This label on a Workload has the UID of the Workload's job."""

POD_SETS_ANNOTATION = LABEL_PREFIX + "kueue-pod-sets"
"""This annotation on a Workload shows that the operator, and not Kueue's own framework (its integration for TFJobs),
handles the Workload. Its value is a hash of the pod sets from which the Workload was made (`mark_of`). For a Workload
that an administrator gave to the operator, the value is `adopted`, and later `adopted-` with the hash.
"""

ADOPTED = "adopted"
"""The value of `POD_SETS_ANNOTATION` with which an administrator gives a Workload of Kueue's own framework to the
operator.

The operator compares such a Workload with its job. Then it appends a hyphen and the hash of the job's pod sets to the
annotation.
"""

REPLACES_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
"""On a Workload: the key of the older Workload that this Workload replaces as soon as this Workload has quota. Kueue
needs free quota only for the difference between the two Workloads.
"""

POD_SET_LABEL = "kueue.x-k8s.io/podset"
"""This label on a pod names the pod's pod set. Kueue's own framework writes the label into the job's templates; the
operator does not write it there.
"""

WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
"""This annotation on a pod names the Workload whose admission allowed the pod."""

MAX_EXECUTION_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
"""This label on a job sets for how many seconds the job may stay admitted; then Kueue deactivates the job."""

PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""This label on a job names the job's WorkloadPriorityClass."""


MULTIKUEUE_ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
"""This label on a job that MultiKueue has created in this cluster names the job's origin. MultiKueue deletes the job
after its end.
"""

_UNSET_VALUES = (None, False, RestartScope.REPLICA, RestartMode.RECREATE, OnStall.REPORT, OnStraggler.IGNORE)
"""Values that mean the same as an unset field."""


def is_multikueue(job: TFJob) -> bool:
    """Return whether the job runs on another cluster: operators of this cluster ignore such a job."""
    return job.spec.policy.managed_by == MANAGED_BY_MULTIKUEUE


def not_carried(job: TFJob) -> tuple[str, ...]:
    """Return the job's fields that its copy on another cluster would lack: `spec.checkpoint`, ...

    MultiKueue copies a job with the Go operator's types, and leaves out the fields that these types lack.
    """
    return (*_fields_set(job.spec, "spec"), *_fields_set(job.spec.policy, "spec.runPolicy"))


def _fields_set(struct: TFJobSpec | RunPolicy, path: str) -> Iterator[str]:
    for name, (attribute, field, _) in declared(type(struct)).items():
        if field.since != GO_OPERATOR and getattr(struct, attribute) not in _UNSET_VALUES:
            yield f"{path}.{name}"


def queue_name(labels: Mapping[str, str]) -> str:
    """Return the LocalQueue from a job's labels; empty for a job without a queue."""
    return labels.get(QUEUE_LABEL, "")


def uncounted_devices(job: TFJob) -> tuple[str, ...]:
    """Return the extended resources, such as GPUs, that the TensorBoard of a job in a queue requests; empty if none.

    A job's Workload ends with the job, but its TensorBoard continues to run, and then the queue's quota does not count
    the TensorBoard.
    """
    board = job.spec.tensor_board
    if board is None or not queue_name(job.metadata.labels):
        return ()
    resources = board.resources or {}
    kinds = [amounts for kind in ("limits", "requests") if isinstance(amounts := resources.get(kind), dict)]
    return tuple(
        sorted(
            {
                name
                for amounts in kinds
                for name, value in amounts.items()
                if not is_native(name) and _is_requested(value)
            }
        )
    )


def _is_requested(value: object) -> bool:
    try:
        return parse_quantity(value) > 0
    except ValueError:
        return True


def uncounted_types(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of `tfReplicaSpecs` that Kueue doesn't find because of their case: `worker`, `ps`.

    The pods of these replica types run, but the queue's quota does not count them.
    """
    return tuple(key for key in keys if (kind := parse_replica_type(key)) is not None and key != kind)
