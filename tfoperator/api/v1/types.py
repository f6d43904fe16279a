"""TFJob `kubeflow.org/v1` as types: the hub version, a drop-in for the Go operator's resource.

The structs are frozen views shared between threads. A replica's pod template stays undecoded JSON (`msgspec.Raw`):
it is only read when a pod must be made, and a job that waits in the cache should not occupy memory for it as
dictionaries. Fields are optional here even where the CRD requires them, because a TFJob may be older than the
CRD; `tfoperator.api.validation` finds the problems of such a job, and `decode_tfjob` never raises.
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
            "Consequence of a failure of the program: Always and OnFailure start the replica again, "
            "Never fails the job, ExitCode fails the job after 1-127 and starts the replica again after "
            "128-255. A pod that is deleted, evicted, preempted or lost with its node is always made "
            "again.",
            choices=RestartPolicy,
            default=RestartPolicy.NEVER.value,
            since=GO_OPERATOR,
        ),
    ] = None
    template: Annotated[
        msgspec.Raw,
        Field(
            "The pod that each replica is made from; its container named tensorflow trains. PS may go "
            "without: it gets the stock parameter server, if the operator has an image for that.",
            kubernetes="PodTemplateSpec",
            since=GO_OPERATOR,
        ),
    ] = msgspec.Raw()

    @property
    def desired(self) -> int:
        """The number of replicas that are requested: one if the number is unset."""
        return 1 if self.replicas is None else self.replicas


class SchedulingPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Gang-scheduling wishes, passed on to the gang scheduler."""

    min_available: Annotated[
        int | None, Field("Number of pods that must find room at the same time; all if unset.", ge=0, since=GO_OPERATOR)
    ] = None
    schedule_timeout_seconds: Annotated[
        int | None, Field("Seconds for which the gang scheduler waits for room.", ge=0, since=GO_OPERATOR)
    ] = None
    queue: Annotated[
        str | None,
        Field(
            "Queue of the gang scheduler. It can't be changed.",
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
"""Seconds: the smallest `progressDeadlineSeconds`.

If replicas do not report, the operator reads the log of every silent pod once in each half of the deadline.
"""


class RunPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Policies over the whole job's life."""

    clean_pod_policy: Annotated[
        str | None,
        Field(
            "Objects that are deleted when the job has ended: All pods and services, the Running pods, "
            "or None. Unset, and without --default-clean-pod-policy of the operator: after a failure the "
            "pods that run are stopped and keep their logs; after a success workers and evaluators "
            "finish, and then parameter servers are stopped.",
            choices=CleanPodPolicy,
            since=GO_OPERATOR,
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        int | None,
        Field("Seconds after the end of the job when it is deleted; never if unset.", ge=0, since=GO_OPERATOR),
    ] = None
    active_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds after the start of the job when it fails, if it still runs.", ge=0, int64=True, since=GO_OPERATOR
        ),
    ] = None
    start_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds after its start (or resumption) when the job fails if not all of its replicas have "
            "started; never if unset.",
            ge=1,
        ),
    ] = None
    backoff_limit: Annotated[
        int | None,
        Field(
            "Number of restarts after failures that all replicas together may have: with 2 the third "
            "failure ends the job.",
            ge=0,
            since=GO_OPERATOR,
        ),
    ] = None
    restart_scope: Annotated[
        str | None,
        Field(
            "Replicas that start again when one has to: that Replica alone (if unset), or all replicas "
            "of the Job, which synchronous training needs. Kubelets then restart nothing by themselves.",
            choices=RestartScope,
        ),
    ] = None
    restart_mode: Annotated[
        str | None,
        Field(
            "Way in which a failed replica starts again: in a new pod (Recreate, if unset), or in its "
            "own pod (InPlace, which needs Kubernetes 1.35).",
            choices=RestartMode,
        ),
    ] = None
    progress_deadline_seconds: Annotated[
        int | None,
        Field(
            "Seconds without progress, at least 30, after which a running job is Stalled: without a "
            "report or, where nothing reports, a line in the logs of its chief and workers. Never if "
            "unset.",
            ge=LEAST_PROGRESS_DEADLINE,
        ),
    ] = None
    on_stall: Annotated[
        str | None,
        Field(
            "Consequence of a stall: a condition and an event (Report, if unset), or a new start of the "
            "replicas that are behind, or of all that train, by restartScope (Restart), or the end of "
            "the job (Fail).",
            choices=OnStall,
        ),
    ] = None
    on_straggler: Annotated[
        str | None,
        Field(
            "Consequence for a replica that is slow, or fails on the same node again and again: none "
            "(Ignore, if unset), or a new start on another node (Restart).",
            choices=OnStraggler,
        ),
    ] = None
    suspend: Annotated[
        bool | None,
        Field(
            "Whether the job is suspended: it has no pods then. Queueing systems set it.",
            default=False,
            since=GO_OPERATOR,
        ),
    ] = None
    managed_by: Annotated[
        str | None,
        Field(
            "Controller that is in charge of the job; this operator if unset. It can't be changed.",
            one_of=MANAGED_BY,
            since=GO_OPERATOR,
        ),
    ] = None
    scheduling_policy: Annotated[
        SchedulingPolicy | None, Field("Wishes that are passed on to the gang scheduler.", since=GO_OPERATOR)
    ] = None


_NO_POLICY = RunPolicy()


class Checkpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the replicas keep checkpoints: a volume that all of them see, with a directory per job.

    `volume` is raw JSON, a volume of a pod's spec without its name, such as `{"persistentVolumeClaim": {...}}`; empty
    (`b""`) when absent.
    """

    volume: Annotated[
        msgspec.Raw,
        Field(
            "A volume of a pod's spec, without name: {persistentVolumeClaim: {claimName: checkpoints}}.",
            required=True,
            schema={"minProperties": 1},
            kubernetes="VolumeSource",
            brief=True,
        ),
    ] = msgspec.Raw()
    mount_path: Annotated[
        str,
        Field(
            "Path at which the containers see the directory of the job; the variable "
            "TFOPERATOR_CHECKPOINT_DIR has it, too.",
            required=True,
            pattern=MOUNT_PATH,
            max_length=MAX_PATH_LENGTH,
        ),
    ] = ""


class TensorBoard(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A TensorBoard beside the job, alive until the job is deleted.

    `volumes` and `volume_mounts` are the volumes of its pod and the mounts of its container, as plain JSON like all
    that goes into the pod as it is: don't change them. `image` None or empty means the operator's image.
    `security_context` is the pod's, and `env` the container's.
    """

    log_dir: Annotated[
        str,
        Field(
            "Place of the event files: a directory in one of its volumes, or a URL such as gs://bucket/logs.",
            required=True,
            hint="the directory (or URL such as gs://bucket/logs) of the event files",
            schema={"minLength": 1},
            max_length=MAX_LOG_DIR_LENGTH,
        ),
    ] = ""
    service_type: Annotated[
        str | None,
        Field(
            "Type of its service, at port 80: ClusterIP, or NodePort and LoadBalancer where administrators allow them.",
            choices=TensorBoardServiceType,
        ),
    ] = None
    volumes: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Volumes of its pod, as in a pod's spec.",
            max_items=MAX_VOLUMES,
            kubernetes="[]Volume",
            brief=True,
            schema=named_items("volume", MAX_NAME_LENGTH),
        ),
    ] = ()
    volume_mounts: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Places at which its container sees the volumes.",
            max_items=MAX_VOLUMES,
            kubernetes="[]VolumeMount",
            schema=named_items("volume", MAX_NAME_LENGTH, mountPath="Where the container sees it."),
        ),
    ] = ()
    security_context: Annotated[
        dict[str, Any] | None,
        Field(
            "Security context of its pod. Members that are unset have the values runAsNonRoot: true, "
            "runAsUser: 65532 and seccompProfile: {type: RuntimeDefault}.",
            kubernetes="PodSecurityContext",
        ),
    ] = None
    env: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Environment variables of its container. The operator sets TENSORBOARD_HOST and TENSORBOARD_PORT.",
            max_items=MAX_VARIABLES,
            kubernetes="[]EnvVar",
            schema=named_items("variable", MAX_PATH_LENGTH),
        ),
    ] = ()
    image_pull_secrets: Annotated[
        tuple[dict[str, Any], ...],
        Field(
            "Secrets with the credentials for its image.",
            max_items=MAX_VOLUMES,
            kubernetes="[]LocalObjectReference",
            schema=named_items("secret", MAX_OBJECT_NAME_LENGTH),
        ),
    ] = ()
    resources: Annotated[
        dict[str, Any] | None, Field("Resources of its container.", kubernetes="ResourceRequirements")
    ] = None
    image: Annotated[
        str | None, Field("Image with TensorBoard; the image that the operator is configured with if unset.")
    ] = None
    node_selector: Annotated[dict[str, str] | None, Field("Labels that a node must have for its pod.")] = None
    service_account_name: Annotated[str | None, Field("Service account of its pod, which gets no token of it.")] = None


class DataService(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A data service (tf.data service) beside the job: a dispatcher and data workers, which end with the job.

    `template` is raw JSON, a pod template; it is empty (`b""`) when absent: then the pods are like the pods of a
    training replica, without its devices. `work_dir` None or empty means that the dispatcher keeps no journal.
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
            "The pod that dispatcher and data workers are made from. Its container named tensorflow runs the stock "
            "programs, unless it has a command. Unset: a pod like the pods of the workers (or of the chief), without "
            "sidecars and devices.",
            kubernetes="PodTemplateSpec",
            # A second copy of all fields of pods would not fit into the annotation of `kubectl apply`.
            open=True,
        ),
    ] = msgspec.Raw()
    port: Annotated[
        int | None,
        Field(
            "Port of the dispatcher and of each data worker; 5050 if unset. It can't be changed.",
            ge=1,
            le=MAX_PORT,
        ),
    ] = None
    work_dir: Annotated[
        str | None,
        Field(
            "Directory (or URL such as gs://bucket/journal) in which the dispatcher keeps a journal. On a volume that "
            "outlives its pod, a restart of the dispatcher loses nothing. Unset: no journal.",
            pattern=WORK_DIR,
            max_length=MAX_PATH_LENGTH,
        ),
    ] = None


class ProgressReporting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether the replicas get the address for reports of the training's progress: `{}` means that they get it."""

    enabled: Annotated[bool | None, Field("Whether the replicas get the address; true if unset.")] = None


class TFJobSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the user asks for."""

    tf_replica_specs: Annotated[
        dict[str, ReplicaSpec | None],
        Field(
            'The replicas by type: PS, Worker, Chief, Master, Evaluator. For example {"PS": {...}, '
            '"Worker": {...}}. The chief is Chief (or Master), else worker 0.',
            required=True,
            schema={"minProperties": 1, "maxProperties": len(ReplicaType)},
            since=GO_OPERATOR,
        ),
    ] = {}
    success_policy: Annotated[
        str | None,
        Field(
            "Condition for the success of a job without chief: worker 0 has succeeded (the default), or "
            "AllWorkers have.",
            choices=SuccessPolicy,
            since=GO_OPERATOR,
        ),
    ] = None
    min_succeeded_workers: Annotated[
        IntOrPercent | None,
        Field(
            "Number or share of workers (3, or 80%, rounded up) whose success is the success of the job, "
            "whatever a chief does.",
            ge=1,
            pattern=POSITIVE_NUMBER_OR_PERCENT,
        ),
    ] = None
    max_failed_workers: Annotated[
        IntOrPercent | None,
        Field(
            "Number or share of workers (3, or 20%, rounded down) that may fail for good while the job "
            "goes on. Unset: none, but any number of dynamic workers.",
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
            "Whether the TF_CONFIG of a worker names only itself and the parameter servers, so that "
            "workers can come and go.",
            since=GO_OPERATOR,
        ),
    ] = None
    elastic_policy: Annotated[
        ElasticPolicy | None,
        Field(
            "Limits of the number of workers of a job without parameter servers: the job goes on with the workers that "
            "find room. With {} it goes on with one."
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
            "Whether the cluster in TF_CONFIG has the evaluators; --evaluator-in-cluster of the operator "
            "(true) if unset."
        ),
    ] = None
    network: Annotated[
        str | None,
        Field(
            "Headless services of the replicas: a service for each (PerReplica), or a single service for "
            "all (PerJob); --default-network of the operator (PerReplica) if unset. It can't be changed.",
            choices=Network,
        ),
    ] = None
    checkpoint: Annotated[
        Checkpoint | None,
        Field(
            "Place where the replicas keep checkpoints: a volume that all of them see, with a directory for each job."
        ),
    ] = None
    tensor_board: Annotated[
        TensorBoard | None, Field("TensorBoard beside the job, which stays until the job is deleted.")
    ] = None
    data_service: Annotated[
        DataService | None,
        Field(
            "Data service (tf.data service) beside the job. TF_DATA_SERVICE names its address in the training replicas."
        ),
    ] = None
    progress: Annotated[
        ProgressReporting | None,
        Field(
            "Reports of the training's progress: with {} the replicas get the address for them. The "
            "operator needs --progress-bind-address; --progress-default does the same for jobs without "
            "this field."
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
    """A TFJob. `decode_error`, which is not part of the API, is why the spec could not be read (see decode_tfjob)."""

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
        """For notebooks, which look for this name: a table instead of a struct of some hundred members."""
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

    If fields of a TFJob have the wrong types (it may be older than the CRD's schema), it comes back with an empty spec
    and the reasons in `decode_error`, one `field: message` a line, so that one bad object can't stop the informer for
    all other objects. Its status is kept if it can be read, since conditions are added to it.
    Raises msgspec.DecodeError only if even the metadata can't be read, or nothing of it can: text that isn't UTF-8,
    or more levels than a decoder follows.
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
    """Return the job with copies of its undecoded parts: the originals keep all of `data` in memory."""
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
        # Encoded again rather than converted, because a template must stay JSON.
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
