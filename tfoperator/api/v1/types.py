"""TFJob `kubeflow.org/v1` as types.

API servers store this version, and it is compatible with the Go operator's resource. The structs are frozen, and
threads share them. A replica's pod template stays undecoded JSON (`msgspec.Raw`). It is read only when a pod must be
created, and decoded templates of jobs that wait in the cache would need too much memory. Fields are optional here even
where the CRD requires them, because a TFJob may be older than the CRD; `tfoperator.api.validation` finds the problems
of such a job, and `decode_tfjob` never raises.
"""

from typing import Annotated, Any

import msgspec
from msgspec.structs import force_setattr

from tfoperator.api.fields.field import GO_OPERATOR, Field, named_items
from tfoperator.api.fields.int_or_percent import NUMBER_OR_PERCENT, POSITIVE_NUMBER_OR_PERCENT, IntOrPercent
from tfoperator.api.fields.limits import (
    MANAGED_BY,
    MAX_DATA_WORKERS,
    MAX_LOG_DIR_LENGTH,
    MAX_NAME_LENGTH,
    MAX_OBJECT_NAME_LENGTH,
    MAX_PATH_LENGTH,
    MAX_PORT,
    MAX_REPLICAS,
    MAX_VARIABLES,
    MAX_VOLUMES,
    MOUNT_PATH,
    QUANTITY,
    WORK_DIR,
)
from tfoperator.api.fields.structure import drop_nulls, type_problems
from tfoperator.api.v1.choices import (
    CleanPodPolicy,
    Network,
    OnStall,
    OnStraggler,
    ReplicaType,
    RestartMode,
    RestartPolicy,
    RestartScope,
    SuccessPolicy,
    TensorBoardServiceType,
)
from tfoperator.api.v1.elastic import ElasticPolicy
from tfoperator.api.v1.state import JobState, in_short, state_of
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta

TFJOBS = Resource("kubeflow.org", "v1", "TFJob", "tfjobs")


class ReplicaSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The replicas of one type.

    `template` is raw JSON; it is empty (`b""`) when absent and `b"null"` when explicitly null.
    """

    replicas: Annotated[
        int | None, Field("Number of pods of this type.", ge=0, le=MAX_REPLICAS, default=1, since=GO_OPERATOR)
    ] = None
    restart_policy: Annotated[
        str | None,
        Field(
            "Action after the program fails: Always and OnFailure restart the replica, Never fails the job, ExitCode "
            "fails the job after exit codes 1-127 and restarts the replica after 128-255. The operator always "
            "creates a pod again that was deleted, evicted, preempted or lost with its node.",
            choices=RestartPolicy,
            default=RestartPolicy.NEVER.value,
            since=GO_OPERATOR,
        ),
    ] = None
    template: Annotated[
        msgspec.Raw,
        Field(
            "Template of the replicas' pods; the container named tensorflow trains. PS may have no template: it then "
            "runs the stock parameter server, if the operator has an image for it.",
            kubernetes="PodTemplateSpec",
            since=GO_OPERATOR,
        ),
    ] = msgspec.Raw()

    @property
    def desired(self) -> int:
        """The number of replicas that are requested: one if the number is unset."""
        return 1 if self.replicas is None else self.replicas


class SchedulingPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The user's settings for gang scheduling, which the operator passes on to the gang scheduler."""

    min_available: Annotated[
        int | None, Field("Number of pods that must be scheduled together; all pods if unset.", ge=0, since=GO_OPERATOR)
    ] = None
    schedule_timeout_seconds: Annotated[
        int | None,
        Field(
            "Seconds for which the gang scheduler waits until all pods of the gang can be scheduled.",
            ge=0,
            since=GO_OPERATOR,
        ),
    ] = None
    queue: Annotated[
        str | None,
        Field(
            "Queue of the gang scheduler. The field can't be changed.",
            schema={"maxLength": MAX_OBJECT_NAME_LENGTH},
            unchangeable=True,
            since=GO_OPERATOR,
        ),
    ] = None
    min_resources: Annotated[
        dict[str, str | int] | None,
        Field("Resources that must be free before the job starts.", pattern=QUANTITY, since=GO_OPERATOR),
    ] = None
    priority_class: Annotated[str | None, Field("Priority class of the gang.", since=GO_OPERATOR)] = None


LEAST_PROGRESS_DEADLINE = 30
"""The minimum of `progressDeadlineSeconds`, in seconds.

If replicas do not report, the operator reads the log of each pod without reports once in each half of the deadline.
"""


class RunPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Policies for the whole job, such as limits, cleanup and suspension."""

    clean_pod_policy: Annotated[
        str | None,
        Field(
            "Objects that the operator deletes after the job has ended: All (pods and services), Running (pods that "
            "still run) or None. If unset, and without --default-clean-pod-policy: after a failure the operator "
            "stops the running pods and keeps their logs; after a success workers and evaluators may finish, and "
            "then the operator stops the parameter servers.",
            choices=CleanPodPolicy,
            since=GO_OPERATOR,
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        Field(
            "Seconds after the end of the job after which the operator deletes it; never if unset.",
            ge=0,
            since=GO_OPERATOR,
        ),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds after the start of the job after which it fails, if it still runs.",
            ge=0,
            int64=True,
            since=GO_OPERATOR,
        ),
    ] = None
    start_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds after the job's start (or resumption) after which it fails if some of its replicas have not "
            "started; never if unset.",
            ge=1,
        ),
    ] = None
    backoff_limit: Annotated[
        int | None,
        Field(
            "Number of restarts after failures for all replicas together. For example, with 2 the job ends at the "
            "third failure.",
            ge=0,
            since=GO_OPERATOR,
        ),
    ] = None
    restart_scope: Annotated[
        str | None,
        Field(
            "Scope of a restart: only the failed Replica (if unset), or all replicas of the Job, which synchronous "
            "training needs. With Job, kubelets don't restart containers.",
            choices=RestartScope,
        ),
    ] = None
    restart_mode: Annotated[
        str | None,
        Field(
            "Where a failed replica restarts: in a new pod (Recreate, if unset), or in its existing pod (InPlace, "
            "which needs Kubernetes 1.35).",
            choices=RestartMode,
        ),
    ] = None
    progress_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds without progress, at least 30, after which a running job is Stalled. Progress is a report or, "
            "if no replica reports, a line in the logs of the chief and workers. Never if unset.",
            ge=LEAST_PROGRESS_DEADLINE,
        ),
    ] = None
    on_stall: Annotated[
        str | None,
        Field(
            "Action after a stall: Report (a condition and an event; if unset), Restart (the replicas that are "
            "behind, or, with restartScope Job, all replicas that train), or Fail (the job).",
            choices=OnStall,
        ),
    ] = None
    on_straggler: Annotated[
        str | None,
        Field(
            "Action for a replica that is slow, or fails on the same node again and again: Ignore (none, if unset), "
            "or Restart (on another node).",
            choices=OnStraggler,
        ),
    ] = None
    suspend: Annotated[
        bool | None,
        Field(
            "Whether the job is suspended; a suspended job has no pods. Queueing systems set this field.",
            default=False,
            since=GO_OPERATOR,
        ),
    ] = None
    managed_by: Annotated[
        str | None,
        Field(
            "Controller that manages the job; this operator if unset. The field can't be changed.",
            one_of=MANAGED_BY,
            since=GO_OPERATOR,
        ),
    ] = None
    scheduling_policy: Annotated[
        SchedulingPolicy | None, Field("Settings that the operator passes to the gang scheduler.", since=GO_OPERATOR)
    ] = None


_NO_POLICY = RunPolicy()


class Checkpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The place where the replicas keep checkpoints: a volume that all of them mount, with a directory for each job.

    `volume` is raw JSON, a volume of a pod's spec without its name, such as `{"persistentVolumeClaim": {...}}`; empty
    (`b""`) when absent.
    """

    volume: Annotated[
        msgspec.Raw,
        Field(
            "A volume as in a pod's spec, but without a name: {persistentVolumeClaim: {claimName: checkpoints}}.",
            required=True,
            schema={"minProperties": 1},
            kubernetes="VolumeSource",
            brief=True,
        ),
    ] = msgspec.Raw()
    mount_path: Annotated[
        str,
        Field(
            "Path of the job's directory in the containers. The variable TFOPERATOR_CHECKPOINT_DIR contains this "
            "path, too.",
            required=True,
            pattern=MOUNT_PATH,
            max_length=MAX_PATH_LENGTH,
        ),
    ] = ""


class TensorBoard(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A TensorBoard for the job: it runs until the job is deleted.

    `volumes` are the volumes of its pod, and `volume_mounts` the mounts of its container. Both are plain JSON and are
    copied into the pod unchanged: don't change them. If `image` is None or empty, the TensorBoard runs the operator's
    image. `security_context` applies to the pod, and `env` to the container.
    """

    log_dir: Annotated[
        str,
        Field(
            "Place of the event files: a directory in a volume of the TensorBoard, or a URL such as gs://bucket/logs.",
            required=True,
            hint="the directory (or a URL such as gs://bucket/logs) that contains the event files",
            schema={"minLength": 1},
            max_length=MAX_LOG_DIR_LENGTH,
        ),
    ] = ""
    service_type: Annotated[
        str | None,
        Field(
            "Type of the TensorBoard's service (port 80): ClusterIP, or NodePort and LoadBalancer if the operator "
            "allows them.",
            choices=TensorBoardServiceType,
        ),
    ] = None
    volumes: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Volumes of the TensorBoard's pod, as in a pod's spec.",
            max_items=MAX_VOLUMES,
            kubernetes="[]Volume",
            brief=True,
            schema=named_items("volume", MAX_NAME_LENGTH),
        ),
    ] = ()
    volume_mounts: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Paths at which the TensorBoard's container mounts the volumes.",
            max_items=MAX_VOLUMES,
            kubernetes="[]VolumeMount",
            schema=named_items("volume", MAX_NAME_LENGTH, mountPath="Path of the volume in the container."),
        ),
    ] = ()
    security_context: Annotated[
        dict[str, Any] | None,
        Field(
            "Security context of the TensorBoard's pod. Defaults of single members: runAsNonRoot: true, runAsUser: "
            "65532 and seccompProfile: {type: RuntimeDefault}.",
            kubernetes="PodSecurityContext",
        ),
    ] = None
    env: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Environment variables of the TensorBoard's container. The operator sets TENSORBOARD_HOST and "
            "TENSORBOARD_PORT.",
            max_items=MAX_VARIABLES,
            kubernetes="[]EnvVar",
            schema=named_items("variable", MAX_PATH_LENGTH),
        ),
    ] = ()
    image_pull_secrets: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Secrets with the credentials for the TensorBoard's image.",
            max_items=MAX_VOLUMES,
            kubernetes="[]LocalObjectReference",
            schema=named_items("secret", MAX_OBJECT_NAME_LENGTH),
        ),
    ] = ()
    resources: Annotated[
        dict[str, Any] | None, Field("Resources of the TensorBoard's container.", kubernetes="ResourceRequirements")
    ] = None
    image: Annotated[str | None, Field("Image with TensorBoard; if unset, the operator's default image.")] = None
    node_selector: Annotated[
        dict[str, str] | None, Field("Labels that a node must have for the TensorBoard's pod.")
    ] = None
    service_account_name: Annotated[
        str | None, Field("Service account of the TensorBoard's pod. The pod gets no token of the account.")
    ] = None


class DataService(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A data service (tf.data service) for the job: a dispatcher and data workers, which end when the job ends.

    `template` is raw JSON, a pod template; it is empty (`b""`) when absent. Then the pods are like the pods of a
    training replica, but without its devices. If `work_dir` is None or empty, the dispatcher keeps no journal.
    """

    workers: Annotated[
        int,
        Field(
            "Number of data workers. It can be changed while the job runs.",
            required=True,
            hint="the number of data workers",
            ge=1,
            le=MAX_DATA_WORKERS,
        ),
    ] = 0
    template: Annotated[
        msgspec.Raw,
        Field(
            "Template of the pods of the dispatcher and of the data workers. The container named tensorflow runs the "
            "stock programs, unless it has a command. If unset, the pods are like the pods of the workers (or of the "
            "chief), without sidecars and devices.",
            kubernetes="PodTemplateSpec",
            # A second copy of all fields of pods would not fit into the annotation of `kubectl apply`.
            open=True,
        ),
    ] = msgspec.Raw()
    port: Annotated[
        int | None,
        Field(
            "Port of the dispatcher and of each data worker; 5050 if unset. The field can't be changed.",
            ge=1,
            le=MAX_PORT,
        ),
    ] = None
    work_dir: Annotated[
        str | None,
        Field(
            "Directory (or URL such as gs://bucket/journal) of the dispatcher's journal. If the directory is on a "
            "persistent volume, a restart of the dispatcher loses nothing. If unset, the dispatcher has no journal.",
            pattern=WORK_DIR,
            max_length=MAX_PATH_LENGTH,
        ),
    ] = None


class ProgressReporting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether the replicas get the address for reports about the training's progress. `{}` means that they get it."""

    enabled: Annotated[
        bool | None,
        Field("Whether the replicas get the address to which they report their progress; true if unset."),
    ] = None


class TFJobSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The job as the user has requested it."""

    tf_replica_specs: Annotated[
        dict[str, ReplicaSpec | None],
        Field(
            'The replicas by type: PS, Worker, Chief, Master, Evaluator. For example {"PS": {...}, "Worker": {...}}. '
            "If there is no Chief (or Master), worker 0 is the chief.",
            required=True,
            schema={"minProperties": 1, "maxProperties": len(ReplicaType)},
            since=GO_OPERATOR,
        ),
    ] = {}
    success_policy: Annotated[
        str | None,
        Field(
            "Condition for the success of a job without chief: worker 0 has succeeded (the default), or all workers "
            "have succeeded (AllWorkers).",
            choices=SuccessPolicy,
            since=GO_OPERATOR,
        ),
    ] = None
    min_succeeded_workers: Annotated[
        IntOrPercent | None,
        Field(
            "Number or share of workers (3, or 80%, rounded up). When so many workers have succeeded, the job has "
            "succeeded, even if a chief still runs or has failed.",
            ge=1,
            pattern=POSITIVE_NUMBER_OR_PERCENT,
        ),
    ] = None
    max_failed_workers: Annotated[
        IntOrPercent | None,
        Field(
            "Number or share of workers (3, or 20%, rounded down) that may fail for good while the job continues. If "
            "unset, none may fail; dynamic workers may all fail.",
            ge=0,
            pattern=NUMBER_OR_PERCENT,
        ),
    ] = None
    run_policy: Annotated[
        RunPolicy | None,
        Field(
            "Policies for the whole job: clean-up, limits, restarts, suspension, gang scheduling.", since=GO_OPERATOR
        ),
    ] = None
    enable_dynamic_worker: Annotated[
        bool | None,
        Field(
            "Whether the TF_CONFIG of a worker contains only the worker itself and the parameter servers. The number "
            "of workers can then change while the job runs.",
            since=GO_OPERATOR,
        ),
    ] = None
    elastic_policy: Annotated[
        ElasticPolicy | None,
        Field(
            "Limits for the number of workers of a job without parameter servers. The job continues with the workers "
            "for which there are nodes. With {} one worker is enough."
        ),
    ] = None
    cluster_arguments: Annotated[
        bool | None,
        Field(
            "Whether each replica also gets the cluster as arguments: --ps_hosts, --worker_hosts, "
            "--job_name, --task_index."
        ),
    ] = None
    evaluator_in_cluster: Annotated[
        bool | None,
        Field(
            "Whether TF_CONFIG contains the evaluators; if unset, the value of the operator's option "
            "--evaluator-in-cluster (true)."
        ),
    ] = None
    network: Annotated[
        str | None,
        Field(
            "Headless services of the replicas: a service for each replica (PerReplica), or one service for all "
            "(PerJob). If unset, the operator's option --default-network decides (PerReplica). The field can't be "
            "changed.",
            choices=Network,
        ),
    ] = None
    checkpoint: Annotated[
        Checkpoint | None,
        Field("Place for the replicas' checkpoints: a volume that all replicas mount, with a directory for each job."),
    ] = None
    tensor_board: Annotated[
        TensorBoard | None, Field("A TensorBoard for the job. It runs until the job is deleted.")
    ] = None
    data_service: Annotated[
        DataService | None,
        Field(
            "A tf.data service for the job. The variable TF_DATA_SERVICE contains its address in the replicas that "
            "train."
        ),
    ] = None
    progress: Annotated[
        ProgressReporting | None,
        Field(
            "Reports of the training's progress: with {} the replicas get the address to which they report. The "
            "operator needs the option --progress-bind-address. The option --progress-default has the same effect "
            "for jobs without this field."
        ),
    ] = None

    @property
    def policy(self) -> RunPolicy:
        """The run policy; a policy without settings if the job has none."""
        return self.run_policy or _NO_POLICY

    @property
    def suspended(self) -> bool:
        """Whether `runPolicy.suspend` is true."""
        return bool(self.policy.suspend)


class TFJob(HasMetadata, frozen=True, rename="camel"):
    """A TFJob.

    `decode_error` is not part of the API. It is the reason why the spec could not be decoded (see decode_tfjob).
    """

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
        """Show a job in a notebook as a table, not as a struct with some hundred members. Notebooks call this name."""
        from tfoperator.api.v1.shown import job_html  # No other program pays for Python's tables of HTML.

        wanted = {kind: spec.desired for kind, spec in self.spec.tf_replica_specs.items() if spec is not None}
        return job_html(self.metadata, wanted, self.status)


class _MetadataOnly(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


_decode_strictly = msgspec.json.Decoder(TFJob).decode
_decode_metadata = msgspec.json.Decoder(_MetadataOnly).decode


def decode_tfjob(data: bytes) -> TFJob:
    """Decode a TFJob from JSON without ever failing on its spec.

    An explicit null in place of a value (`conditions: null`, as Go programs write empty lists) counts as absent.

    Fields of a TFJob may have wrong types, because the job may be older than the CRD's schema. Then the job is returned
    with an empty spec, and `decode_error` has the reasons, one `field: message` on each line. So one bad object can't
    stop the informer for all other objects. The job's status is kept if it can be read, because the operator adds
    conditions to it. Raises msgspec.DecodeError only if the metadata can't be read, or if nothing of the job can be
    read: the text isn't UTF-8, or has more levels than the decoder supports.
    """
    try:
        if not data.isascii():
            data.decode()  # The decoder does not check parts that stay undecoded (a template) or are skipped.
        try:
            return _detached(_decode_strictly(data))
        except msgspec.ValidationError as error:
            return _decode_leniently(data, error)
    except (UnicodeDecodeError, RecursionError) as error:
        # msgspec raises these two errors itself; callers handle only DecodeError.
        raise msgspec.DecodeError(str(error)) from error


def _detached(job: TFJob) -> TFJob:
    """Return the job with copies of its undecoded parts.

    Without copies, these parts would keep all of `data` in memory.
    """
    for replica in job.spec.tf_replica_specs.values():
        if replica is not None:
            force_setattr(replica, "template", replica.template.copy())
    checkpoint, data_service = job.spec.checkpoint, job.spec.data_service
    if checkpoint is not None:
        force_setattr(checkpoint, "volume", checkpoint.volume.copy())
    if data_service is not None:
        force_setattr(data_service, "template", data_service.template.copy())
    return job


def _decode_leniently(data: bytes, error: msgspec.ValidationError) -> TFJob:
    value = msgspec.json.decode(data)
    if not isinstance(value, dict):
        raise error
    value = drop_nulls(value, TFJob)
    try:
        # Encoded and decoded again instead of converted, because a TFJob keeps its pod templates as undecoded JSON.
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
