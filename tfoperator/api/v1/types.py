"""TFJob `kubeflow.org/v1` as types: the hub version, a drop-in for the Go operator's resource.

The structs are frozen views shared between threads. A replica's pod template stays undecoded JSON (`msgspec.Raw`):
it is only read when a pod has to be made, and a job that waits in the cache should not cost its weight in
dictionaries. Fields are optional here even where the CRD requires them, because a TFJob may be older than the
CRD; `tfoperator.api.validation` says what is wrong with one, and `decode_tfjob` never raises.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from tfoperator.api.structure import drop_nulls, type_problems
from tfoperator.api.v1.state import JobState, in_short, state_of
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.kube.objects import HasMetadata, ObjectMeta
from tfoperator.kube.resources import Resource

TFJOBS = Resource("kubeflow.org", "v1", "TFJob", "tfjobs")


class ReplicaType(StrEnum):
    """The roles a process can have in a TensorFlow cluster, as spelled in `tfReplicaSpecs`.

    The lower-case form (`ReplicaType.lower()`) is what TF_CONFIG, object names and labels use.
    """

    PS = "PS"
    WORKER = "Worker"
    CHIEF = "Chief"
    MASTER = "Master"
    EVALUATOR = "Evaluator"


class RestartPolicy(StrEnum):
    """What happens to a replica whose program fails. ExitCode: 1-127 is permanent, 128-255 retryable.

    A pod that Kubernetes or a person took is no failure of the program: it is made again under every policy.
    """

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class RestartScope(StrEnum):
    """What is started again when a replica has to be: the replica alone (if unset), or all of the job's together."""

    REPLICA = "Replica"
    JOB = "Job"


class Network(StrEnum):
    """By which headless services the replicas find each other: one for each replica, or one for the whole job."""

    PER_REPLICA = "PerReplica"
    PER_JOB = "PerJob"


class OnStall(StrEnum):
    """What happens to a job that has made no progress for its deadline. Unset means Report: it is told, no more."""

    REPORT = "Report"
    RESTART = "Restart"
    FAIL = "Fail"


class CleanPodPolicy(StrEnum):
    """Which pods (and their services) are deleted when a job has ended."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class SuccessPolicy(StrEnum):
    """When a job without chief has succeeded: worker 0 (the empty default) or every worker."""

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


class TensorBoardServiceType(StrEnum):
    """The types of service under which a TensorBoard can be reached."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class ReplicaSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The replicas of one type.

    `template` is raw JSON; it is empty (`b""`) when absent and `b"null"` when explicitly null.
    """

    replicas: int | None = None
    restart_policy: str | None = None
    template: msgspec.Raw = msgspec.Raw()

    @property
    def desired(self) -> int:
        """How many replicas are asked for: one where the number is unset."""
        return 1 if self.replicas is None else self.replicas


class SchedulingPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Gang-scheduling wishes, passed on to the gang scheduler."""

    min_available: int | None = None
    queue: str | None = None
    min_resources: dict[str, str | int] | None = None
    priority_class: str | None = None
    schedule_timeout_seconds: int | None = None


LEAST_PROGRESS_DEADLINE = 30
"""Seconds: the smallest `progressDeadlineSeconds`.

Where nothing reports, a deadline costs a look at a log in each half of it, of every silent pod.
"""


class RunPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Policies over the whole job's life."""

    clean_pod_policy: str | None = None
    ttl_seconds_after_finished: int | None = None
    active_deadline_seconds: int | None = None
    start_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    restart_scope: str | None = None
    restart_mode: str | None = None
    progress_deadline_seconds: int | None = None
    on_stall: str | None = None
    on_straggler: str | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool | None = None
    managed_by: str | None = None


_NO_POLICY = RunPolicy()


class Checkpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the replicas keep checkpoints: a volume that all of them see, with a directory per job.

    `volume` is raw JSON, a volume of a pod's spec without its name, such as `{"persistentVolumeClaim": {...}}`; empty
    (`b""`) when absent.
    """

    volume: msgspec.Raw = msgspec.Raw()
    mount_path: str = ""


class TensorBoard(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A TensorBoard beside the job, alive until the job is deleted.

    `volumes` and `volume_mounts` are those of its pod and container, as plain JSON like all that goes into the pod as
    it is: don't change them. `image` None or empty means the operator's. `security_context` is the pod's, and `env` the
    container's.
    """

    log_dir: str = ""
    image: str | None = None
    env: tuple[dict[str, Any], ...] = ()
    image_pull_secrets: tuple[dict[str, Any], ...] = ()
    node_selector: dict[str, str] | None = None
    security_context: dict[str, Any] | None = None
    service_account_name: str | None = None
    volumes: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    resources: dict[str, Any] | None = None
    service_type: str | None = None


class ProgressReporting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether the replicas are told where to report the training's progress: `{}` means that they are."""

    enabled: bool | None = None


class TFJobSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the user asks for."""

    # What is typed `int | str` is a number or a percentage such as "80%" (`api.int_or_percent`).
    tf_replica_specs: dict[str, ReplicaSpec | None] = {}
    run_policy: RunPolicy | None = None
    success_policy: str | None = None
    min_succeeded_workers: int | str | None = None
    max_failed_workers: int | str | None = None
    enable_dynamic_worker: bool | None = None
    cluster_arguments: bool | None = None
    evaluator_in_cluster: bool | None = None
    network: str | None = None
    checkpoint: Checkpoint | None = None
    tensor_board: TensorBoard | None = None
    progress: ProgressReporting | None = None

    @property
    def policy(self) -> RunPolicy:
        """The run policy; one without settings where there is none."""
        return self.run_policy or _NO_POLICY

    @property
    def suspended(self) -> bool:
        """Whether `runPolicy.suspend` is true."""
        return bool(self.policy.suspend)


class TFJob(HasMetadata, frozen=True, rename="camel"):
    """A TFJob. `decode_error` is not part of the API: it says why the spec could not be read (see decode_tfjob)."""

    spec: TFJobSpec = msgspec.field(default_factory=TFJobSpec)
    status: TFJobStatus = msgspec.field(default_factory=TFJobStatus)
    decode_error: str = msgspec.field(default="", name="-")

    @property
    def state(self) -> JobState:
        """The job's state in words: a word such as Running, Stalled or Failed, and the message that explains it."""
        return state_of(self.metadata, self.status)

    def __repr__(self) -> str:
        return f"<TFJob {self.metadata.namespace}/{self.metadata.name}: {in_short(self.metadata, self.status)}>"

    def _repr_html_(self) -> str:
        """For notebooks, which ask for this name: a table instead of a struct of some hundred members."""
        from tfoperator.api.v1.shown import job_html  # No other program pays for Python's tables of HTML.

        wanted = {kind: spec.desired for kind, spec in self.spec.tf_replica_specs.items() if spec is not None}
        return job_html(self.metadata, wanted, self.status)


class _MetadataOnly(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


_decode_strictly = msgspec.json.Decoder(TFJob).decode
_decode_metadata = msgspec.json.Decoder(_MetadataOnly).decode


def decode_tfjob(data: bytes) -> TFJob:
    """Decode a TFJob from JSON without ever failing on its spec.

    An explicit null where a value belongs (`conditions: null`, as Go programs write empty lists) means absent.

    A TFJob whose fields have the wrong types (it may predate the CRD's schema) comes back with an empty spec and the
    reasons in `decode_error`, one `field: message` a line, so that one bad object can't stop the informer for all the
    others; its status is kept if it can be read, since conditions are added to it.
    Raises msgspec.DecodeError only if even the metadata can't be read, or nothing of it can: text that isn't UTF-8,
    or more levels than a decoder follows.
    """
    try:
        if not data.isascii():
            data.decode()  # What stays undecoded (a template) or is skipped is not looked at by the decoder.
        try:
            return _detached(_decode_strictly(data))
        except msgspec.ValidationError as error:
            return _decode_leniently(data, error)
    except (UnicodeDecodeError, RecursionError) as error:
        # msgspec's own for these two; callers stop at DecodeError.
        raise msgspec.DecodeError(str(error)) from error


def _detached(job: TFJob) -> TFJob:
    """The job, its undecoded parts copied: as they come they keep all of `data`, managed fields included, in memory."""
    for replica in job.spec.tf_replica_specs.values():
        if replica is not None:
            force_setattr(replica, "template", replica.template.copy())
    checkpoint = job.spec.checkpoint
    if checkpoint is not None:
        force_setattr(checkpoint, "volume", checkpoint.volume.copy())
    return job


def _decode_leniently(data: bytes, error: msgspec.ValidationError) -> TFJob:
    value = msgspec.json.decode(data)
    if not isinstance(value, dict):
        raise error
    value = drop_nulls(value, TFJob)
    try:
        # Encoded again rather than converted: a template has to end up as JSON.
        return _detached(_decode_strictly(msgspec.json.encode(value)))
    except msgspec.ValidationError as still:
        problems = type_problems(value, TFJob)
        reason = "\n".join(map(str, problems)) or str(still)
    metadata = _decode_metadata(msgspec.json.encode(value)).metadata
    try:
        status = msgspec.convert(value.get("status", {}), TFJobStatus)
    except msgspec.ValidationError:
        status = TFJobStatus()
    return TFJob(metadata=metadata, status=status, decode_error=reason)
