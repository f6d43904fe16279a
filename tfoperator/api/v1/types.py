"""TFJob `kubeflow.org/v1` as types.

API servers store this version, and it is compatible with the Go operator's resource. The structs are frozen, and
threads share them. A replica's pod template stays undecoded JSON (`msgspec.Raw`). The template is decoded only when a
pod must be created, because decoded templates of all cached jobs would need too much memory. Fields are optional here
even where the CRD requires them, because a TFJob may be older than the CRD. `decode_tfjob` accepts every
spec of such a job, and `tfoperator.api.validation` finds the problems in it.
"""

from typing import Annotated

import msgspec
from msgspec.structs import force_setattr

from tfoperator.api.fields.field import GO_OPERATOR, Field
from tfoperator.api.fields.int_or_percent import NUMBER_OR_PERCENT, POSITIVE_NUMBER_OR_PERCENT, IntOrPercent
from tfoperator.api.fields.limits import MAX_REPLICAS
from tfoperator.api.fields.structure import drop_nulls, type_problems
from tfoperator.api.v1.choices import Network, ReplicaType, RestartPolicy, SuccessPolicy
from tfoperator.api.v1.parts.checkpoint import Checkpoint
from tfoperator.api.v1.parts.data_service import DataService
from tfoperator.api.v1.parts.elastic import ElasticPolicy
from tfoperator.api.v1.parts.progress import ProgressReporting
from tfoperator.api.v1.parts.run_policy import RunPolicy
from tfoperator.api.v1.parts.tensorboard import TensorBoard
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
            "Template of the replicas' pods; the container named tensorflow trains. PS may have no template: its "
            "pods then run TensorFlow's own server, if the operator has an image for them.",
            kubernetes="PodTemplateSpec",
            since=GO_OPERATOR,
        ),
    ] = msgspec.Raw()

    @property
    def desired(self) -> int:
        """The number of replicas that are requested: one if the number is unset."""
        return 1 if self.replicas is None else self.replicas


_NO_POLICY = RunPolicy()


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
            "Number or share of workers (such as 3, or 80%, rounded up). When so many workers have succeeded, the job "
            "has succeeded, even if a chief still runs or has failed.",
            ge=1,
            pattern=POSITIVE_NUMBER_OR_PERCENT,
        ),
    ] = None
    max_failed_workers: Annotated[
        IntOrPercent | None,
        Field(
            "Number or share of workers (such as 3, or 20%, rounded down) that may fail for good while the job "
            "continues. If unset, none may fail; dynamic workers may all fail.",
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
            "--evaluator-in-cluster (default: true)."
        ),
    ] = None
    network: Annotated[
        str | None,
        Field(
            "Headless services of the replicas: a service for each replica (PerReplica), or one service for all "
            "(PerJob). If unset, the operator's option --default-network decides (default: PerReplica). The "
            "field can't be changed.",
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
        from tfoperator.api.v1.shown import job_html  # The import is here, because only notebooks need this module.

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
    """Replace the undecoded parts of the job by copies, in place; return the same job.

    Without copies, these parts would keep the job's whole JSON text in memory.
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
