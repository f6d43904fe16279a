"""Jobs in a queue of Kueue, and the parts of them that Kueue can't count. Pure.

Kueue finds its jobs by a label, and suspends them until there is room (`runPolicy.suspend`). It keeps a Workload for
each job, with the reason for waiting. It reads `tfReplicaSpecs` by exact keys; this operator reads them in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tfoperator.api.fields.field import GO_OPERATOR, declared
from tfoperator.api.fields.limits import MANAGED_BY_MULTIKUEUE
from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.api.pods.rules.resources import is_native
from tfoperator.api.replicas.names import LABEL_PREFIX, parse_replica_type
from tfoperator.api.v1.choices import OnStall, OnStraggler, RestartMode, RestartScope
from tfoperator.api.v1.types import RunPolicy, TFJob, TFJobSpec

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""On a job: the LocalQueue that it waits in."""

JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""On a Workload: the UID of its job."""

POD_SETS_ANNOTATION = LABEL_PREFIX + "kueue-pod-sets"
"""On a Workload: the operator drives it. The value stands for the pod sets that it was made from, after `ADOPTED`."""

ADOPTED = "adopted"
"""The value of that annotation in a Workload of Kueue's own framework that an administrator gives to the operator.

The operator compares such a Workload with its job, and adds a hyphen and the value that stands for the job's pod sets.
"""

REPLACES_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
"""On a Workload: the key of the Workload that it replaces when it has quota. Kueue counts the difference alone."""

POD_SET_LABEL = "kueue.x-k8s.io/podset"
"""On a pod: its pod set. Kueue's own framework writes it into the job's templates, the operator does not."""

WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
"""On a pod: the Workload by whose admission it was made."""

MAX_EXECUTION_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
"""On a job: how many seconds it may be admitted before Kueue deactivates it."""

PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""On a job: its WorkloadPriorityClass."""


MULTIKUEUE_ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
"""On a job that MultiKueue has created in this cluster: its origin. MultiKueue deletes the job after its end."""

_UNSET_VALUES = (None, False, RestartScope.REPLICA, RestartMode.RECREATE, OnStall.REPORT, OnStraggler.IGNORE)
"""Values that mean the same as an unset field."""


def is_multikueue(job: TFJob) -> bool:
    """Return whether the job runs on another cluster, so that operators of this cluster leave it alone."""
    return job.spec.policy.managed_by == MANAGED_BY_MULTIKUEUE


def not_carried(job: TFJob) -> tuple[str, ...]:
    """Return the job's fields that its copy on another cluster would lack: `spec.checkpoint`, ...

    MultiKueue copies a job by the Go operator's types, and omits the fields that these lack.
    """
    return (*_fields_set(job.spec, "spec"), *_fields_set(job.spec.policy, "spec.runPolicy"))


def _fields_set(struct: TFJobSpec | RunPolicy, path: str) -> Iterator[str]:
    for name, (attribute, field, _) in declared(type(struct)).items():
        if field.since != GO_OPERATOR and getattr(struct, attribute) not in _UNSET_VALUES:
            yield f"{path}.{name}"


def queue_name(labels: Mapping[str, str]) -> str:
    """Return the LocalQueue that a job with these labels is in; empty for a job without a queue."""
    return labels.get(QUEUE_LABEL, "")


def uncounted_devices(job: TFJob) -> tuple[str, ...]:
    """Return the extended resources, such as GPUs, that the TensorBoard of a job in a queue requests; empty if none.

    A job's Workload ends with the job, but its TensorBoard goes on, and then quotas do not count it.
    """
    board = job.spec.tensor_board
    if board is None or not queue_name(job.metadata.labels):
        return ()
    resources = board.resources or {}
    kinds = [amounts for kind in ("limits", "requests") if isinstance(amounts := resources.get(kind), dict)]
    return tuple(
        sorted({name for amounts in kinds for name, value in amounts.items() if not is_native(name) and _asks(value)})
    )


def _asks(value: object) -> bool:
    try:
        return parse_quantity(value) > 0
    except ValueError:
        return True


def uncounted_types(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of `tfReplicaSpecs` that Kueue doesn't know, since their case differs: `worker`, `ps`.

    Their pods run, but quotas do not count them.
    """
    return tuple(key for key in keys if (kind := parse_replica_type(key)) is not None and key != kind)
