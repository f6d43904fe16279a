"""Names and labels of all objects of a TFJob: pure functions, no I/O.

The names and labels are exactly the same as in the Go operator, because other programs use them: queueing systems
select by label, users type `{job}-worker-0` into `kubectl logs`, and this operator must find a job that the Go operator
started. Only if an administrator chooses unique names, the names end with a part of the job's UID. Any client may write
a label, so the functions that read labels accept any text: an invalid label gives None, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tfoperator.api.v1.choices import ReplicaType
from tfoperator.kube.views.objects import HasMetadata

LABEL_PREFIX = "training.kubeflow.org/"
LABEL_OPERATOR_NAME = LABEL_PREFIX + "operator-name"
LABEL_JOB_NAME = LABEL_PREFIX + "job-name"
LABEL_REPLICA_TYPE = LABEL_PREFIX + "replica-type"
LABEL_REPLICA_INDEX = LABEL_PREFIX + "replica-index"
LABEL_JOB_ROLE = LABEL_PREFIX + "job-role"
JOB_ROLE_MASTER = "master"
"""Value of `LABEL_JOB_ROLE` on the pod that leads the job (Chief or Master, else worker 0); others lack the label."""

ANNOTATION_RESTARTS = LABEL_PREFIX + "restarts"
"""On a pod: the number of restarts of its replica before this pod was created."""

ANNOTATION_STOPPED = LABEL_PREFIX + "stopped"
"""On a pod that the operator stopped: the outcome of the job (`job-succeeded` or `job-failed`), or
`STOPPED_WITH_REPLICA`.
"""
STOPPED_WITH_REPLICA = "replica-ended"
"""Value of `ANNOTATION_STOPPED` on a pod that was stopped because its container `tensorflow` had ended while other
containers still ran.
"""
STOPPED_WITH_RUN = "run-ended"
"""Value of `ANNOTATION_STOPPED` on a pod that was stopped at the end of its run; only in the records of a run
(`tfoperator run`).
"""

ANNOTATION_JOB_RESTARTS = LABEL_PREFIX + "job-restarts"
"""On a pod: how often all replicas of its job were restarted together before this pod was created."""

ANNOTATION_DISRUPTIONS = LABEL_PREFIX + "disruptions"
"""On a pod: how many earlier restarts of its replica were caused by a disruption and not by a failure."""
ANNOTATION_JOB_DISRUPTIONS = LABEL_PREFIX + "job-disruptions"
"""On a pod: how many earlier restarts of all replicas of its job together were caused by a disruption."""


ANNOTATION_WORKERS = LABEL_PREFIX + "workers"
"""On a pod of a job with an `elasticPolicy`: the number of workers that it was made for."""
ANNOTATION_PROBE = LABEL_PREFIX + "probe"
"""On a pod that tests whether the cluster has room for one more worker of a job with an `elasticPolicy`; its program
does not start.
"""

ANNOTATION_RESTART_MODE = LABEL_PREFIX + "restart-mode"
"""On a pod whose kubelet restarts the container `tensorflow` because of a rule that the operator added: `InPlace`."""

RECORDS_ON_PODS = frozenset(
    {
        ANNOTATION_RESTARTS,
        ANNOTATION_STOPPED,
        ANNOTATION_JOB_RESTARTS,
        ANNOTATION_DISRUPTIONS,
        ANNOTATION_JOB_DISRUPTIONS,
        ANNOTATION_WORKERS,
        ANNOTATION_PROBE,
    }
)
"""The annotations in which the operator records facts about a pod. A pod does not get these annotations from its
template, which may be a copy of a pod.
"""

MAX_RESTARTS = 1_000_000
"""The maximum number of restarts that are counted. A larger number in an annotation or a status counts as this number.
"""

LABEL_TENSORBOARD = LABEL_PREFIX + "tensorboard"
"""On a TensorBoard's deployment, service and pod: the name of its job. The pod has this label and none of the labels
that select a job's replicas: listing or deleting replicas must not include it."""

ANNOTATION_SPEC_HASH = LABEL_PREFIX + "spec-hash"
"""On a TensorBoard's deployment and service: a hash of the data from which the operator made the object. The operator
compares hashes to find changes.
"""

ANNOTATION_TENSORBOARD_URL = LABEL_PREFIX + "tensorboard-url"
"""On a TensorBoard's service: the address for people. The program that publishes the TensorBoard (an ingress, the local
control plane) sets it.
"""

GANG_TOPOLOGY_ANNOTATION = LABEL_PREFIX + "gang-topology"
"""On a TFJob: a label of nodes, such as `topology.kubernetes.io/zone`. If Kubernetes' own scheduler places gangs, all
nodes of the job's gang have the same value of that label.
"""

ANNOTATION_PARAMETERS = LABEL_PREFIX + "parameters"
"""On a TFJob made from a Python function: the function's arguments, as a JSON object."""

EMBEDDED_VERSION = "+tfoperator.embedded"
"""The end of the version that an API server reports. It shows clients that the API server is the local control plane
(`tfoperator local up`).
"""

EMBEDDED_KUBERNETES = "v1.37.2"
"""The release of Kubernetes whose behaviour the local control plane has."""

EMBEDDED_RELEASE = f"{EMBEDDED_KUBERNETES}{EMBEDDED_VERSION}"
"""The version that the API server and the node of the local control plane report."""

TENSORBOARD_SUFFIX = "-tensorboard"
TENSORBOARD_CONTAINER = "tensorboard"
TENSORBOARD_HOST_VARIABLE = "TENSORBOARD_HOST"
TENSORBOARD_PORT_VARIABLE = "TENSORBOARD_PORT"
"""The variables TENSORBOARD_HOST and TENSORBOARD_PORT have the address on which a TensorBoard's container listens. The
local control plane sets other values than a cluster, because each TensorBoard has its own port there.
"""

TENSORBOARD_REPLICA = "tensorboard"
"""The name of a TensorBoard's pod in lists of the job's replicas."""

OPERATOR_NAME = "tfjob-controller"
"""Value of `LABEL_OPERATOR_NAME`, and the source of the operator's events."""

MANAGED_SELECTOR = f"{LABEL_OPERATOR_NAME}={OPERATOR_NAME}"
"""The label selector that picks the pods and services of every TFJob."""

DEFAULT_CONTAINER_NAME = "tensorflow"
TF_CONFIG = "TF_CONFIG"
"""The variable from which a process reads the hosts of all processes of the job, and its own type and index."""
DEFAULT_PORT_NAME = "tfjob-port"
DEFAULT_PORT = 2222

CHECKPOINT_VOLUME = "tfoperator-checkpoint"
"""The name of the volume that `spec.checkpoint` adds to every pod."""
CHECKPOINT_VARIABLE = "TFOPERATOR_CHECKPOINT_DIR"
"""The environment variable that names the job's directory in the checkpoint volume."""

LABEL_WORKDIR = LABEL_PREFIX + "workdir"
"""On a TFJob that was submitted with a folder (`tfoperator submit train.py`): the name of the ConfigMap or Secret with
the packed folder. The replicas run in this folder.
"""
WORKDIR_VOLUME, WORKDIR_SOURCE_VOLUME = "tfoperator-workdir", "tfoperator-workdir-source"
"""The volumes of the pods of a job with `LABEL_WORKDIR`: the first has the unpacked folder, the second the packed
folder.
"""

LABEL_DATA_SERVICE = LABEL_PREFIX + "data-service"
"""This label on the pods and services of a job's data service is `dispatcher` or `dataworker`. These pods and services
have no label for a replica type.
"""

_UID_PART_LENGTH = 8

MAX_REPLICA_INDEX = 2**31 - 2
"""The largest index that an int32 `replicas` allows; an object with a larger index in its label belongs to
no replica.
"""

_TYPE_BY_LOWER = {replica_type.lower(): replica_type for replica_type in ReplicaType}
_LOWER_BY_TYPE = {replica_type: lower for lower, replica_type in _TYPE_BY_LOWER.items()}


def is_probe(annotations: Mapping[str, str]) -> bool:
    """Return whether a pod with these annotations is a probe, which only tests whether a node has room for a worker."""
    return ANNOTATION_PROBE in annotations


def annotated_count(annotations: Mapping[str, str], key: str) -> int:
    """Return the number in the annotation `key`, at most MAX_RESTARTS; 0 if the annotation is absent or invalid."""
    if key not in annotations:
        return 0
    text = annotations[key]
    if not (text.isascii() and text.isdigit()) or len(text) > 7:
        return 0
    return min(int(text), MAX_RESTARTS)


def all_restarts_before(annotations: Mapping[str, str]) -> int:
    """Return how often the replica of a pod was restarted before this pod, alone or together with all replicas."""
    return sum(annotated_count(annotations, key) for key in (ANNOTATION_RESTARTS, ANNOTATION_JOB_RESTARTS))


LONGEST_SUFFIX = len("-evaluator-2147483647")
"""The maximum number of characters that `object_name` and `tensorboard_name` add to a job's name, for any number of
replicas.
"""


def object_name(job_name: str, replica_type: ReplicaType, index: int) -> str:
    """Return the name of a replica's pod and of its service: `{job}-{type lower}-{index}`."""
    return f"{job_name}-{_LOWER_BY_TYPE[replica_type]}-{index}"


def unique_object_name(job_name: str, replica_type: ReplicaType, index: int, uid: str) -> str:
    """Return `object_name` with a part of the job's UID at its end: `{job}-{type lower}-{index}-{first 8 digits}`.

    UIDs are random UUIDs, so this part has 32 random bits, which is enough to distinguish jobs of the same name.
    """
    return f"{job_name}-{_LOWER_BY_TYPE[replica_type]}-{index}-{uid[:_UID_PART_LENGTH]}"


def unique_name(job_name: str, uid: str) -> str:
    """Return the unique name of a job's service if the job has one service for all replicas (`network: PerJob`).

    The name has a part of the job's UID at its end: `{job}-{first 8 digits}`. Without unique names, the name is the
    job's name.
    """
    return f"{job_name}-{uid[:_UID_PART_LENGTH]}"


def with_uid(name: str, uid: str) -> str:
    """Return the name of an object with a part of its job's UID at the end: `{name}-{first 8 digits}`."""
    return f"{name}-{uid[:_UID_PART_LENGTH]}"


def job_labels(job_name: str) -> dict[str, str]:
    """Return the labels that the pods of all replicas have.

    If a job has one service for all replicas (`network: PerJob`), the service has and selects the same labels.
    """
    return {LABEL_OPERATOR_NAME: OPERATOR_NAME, LABEL_JOB_NAME: job_name}


def has_job_labels(labels: Mapping[str, str], job_name: str) -> bool:
    """Return whether an object with these labels belongs to the job of this name (in the same namespace)."""
    try:
        return labels[LABEL_JOB_NAME] == job_name and labels[LABEL_OPERATOR_NAME] == OPERATOR_NAME
    except KeyError:
        return False


def replica_labels(job_name: str, replica_type: ReplicaType, index: int, *, is_master: bool) -> dict[str, str]:
    """Return the labels of a replica's pod.

    The replica's service has the same labels except the role (`is_master=False`).
    """
    of_replica = {LABEL_REPLICA_TYPE: _LOWER_BY_TYPE[replica_type], LABEL_REPLICA_INDEX: str(index)}
    labels = job_labels(job_name) | of_replica
    if is_master:
        labels[LABEL_JOB_ROLE] = JOB_ROLE_MASTER
    return labels


def tensorboard_name(job_name: str) -> str:
    """Return the name of the deployment and the service of a job's TensorBoard. It is also the service's DNS name."""
    return job_name + TENSORBOARD_SUFFIX


def tensorboard_labels(job_name: str) -> dict[str, str]:
    """Return the labels of a TensorBoard's deployment and service."""
    return job_labels(job_name) | {LABEL_TENSORBOARD: job_name}


def job_selector(job_name: str) -> str:
    """Return the label selector for the pods and services of the job with this name in one namespace."""
    return f"{MANAGED_SELECTOR},{LABEL_JOB_NAME}={job_name}"


def replicas_selector(job_name: str, replica_type: ReplicaType) -> str:
    """Return the label selector that picks the pods and services of one type's replicas."""
    return f"{job_selector(job_name)},{LABEL_REPLICA_TYPE}={replica_type.lower()}"


def parse_replica_type(text: str) -> ReplicaType | None:
    """Return the replica type that `text` names, in upper or lower case (`worker`, `WORKER`, `Worker`), else None."""
    return _TYPE_BY_LOWER.get(text.lower())


def parse_replica_index(text: str) -> int | None:
    """Return the index in the value of a label, else None.

    Only the standard spelling is accepted (`7`, not `07`, `+7` or another script's digits), because the service of an
    index does not select an object whose label has another spelling.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or (text[0] == "0" and text != "0"):
        return None
    index = int(text)
    return index if index <= MAX_REPLICA_INDEX else None


def replica_of(labels: Mapping[str, str]) -> tuple[ReplicaType, int] | None:
    """Return the replica to which an object with these labels belongs; None if the labels name no replica."""
    try:
        return _replica(labels[LABEL_REPLICA_TYPE], labels[LABEL_REPLICA_INDEX])
    except KeyError:
        return None


@lru_cache(1 << 14)  # called for each object in each sync; jobs have the same indexes, and at most 10,000 of a type
def _replica(type_label: str, index_label: str) -> tuple[ReplicaType, int] | None:
    replica_type, index = parse_replica_type(type_label), parse_replica_index(index_label)
    return None if replica_type is None or index is None else (replica_type, index)


def is_parameter_server(labels: Mapping[str, str]) -> bool:
    """Return whether an object with these labels belongs to a replica of the type PS."""
    replica = replica_of(labels)
    return replica is not None and replica[0] is ReplicaType.PS


def is_data_service(labels: Mapping[str, str]) -> bool:
    """Return whether an object with these labels belongs to a data service."""
    return LABEL_DATA_SERVICE in labels


def is_server(labels: Mapping[str, str]) -> bool:
    """Return whether the program of a pod with these labels never ends by itself because it only serves other pods."""
    return LABEL_DATA_SERVICE in labels or is_parameter_server(labels)


def parse_replica_name(name: str) -> tuple[ReplicaType | None, int | None]:
    """Return the type and the index in a name such as `worker-0`; return None for a part that can't be read."""
    kind, _, index = name.rpartition("-")
    return parse_replica_type(kind), parse_replica_index(index)


def replica_name(pod: HasMetadata) -> str:
    """Return a short name such as `worker-0` for a replica's pod; for any other pod, return the name of the pod.

    The pod of a TensorBoard is `tensorboard`. For the pods of a data service, the short names are `dispatcher-0`,
    `dataworker-1` and so on.
    """
    labels = pod.metadata.labels
    if LABEL_TENSORBOARD in labels:
        return TENSORBOARD_REPLICA
    if LABEL_DATA_SERVICE in labels:
        return f"{labels[LABEL_DATA_SERVICE]}-{labels.get(LABEL_REPLICA_INDEX, '')}"
    replica = replica_of(labels)
    return f"{replica[0].lower()}-{replica[1]}" if replica is not None else pod.metadata.name


CRD_NAME = "tfjobs.kubeflow.org"
SYSTEM_NAMESPACE = "tfoperator-system"
WEBHOOK_SERVICE = "tfoperator-webhook"
WEBHOOK_SECRET = "tfoperator-webhook-cert"
CONVERSION_PATH = "/convert"
