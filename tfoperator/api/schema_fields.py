"""What the CRD says about each field of a TFJob that its type doesn't: meaning, bounds, defaults, CEL rules.

Rules exist for what an API server can refuse at the door; `tfoperator.api.rules` says the same in the operator and the
command line. Every rule is bounded (`maxItems`, `maxProperties`, `maxLength`): API servers refuse a CRD whose rules
might cost too much.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api.cel_rules import REPLICA_RULES, cel_rule
from tfoperator.api.names import DEFAULT_CONTAINER_NAME, MAX_NAME_LENGTH
from tfoperator.api.rules import (
    INT32_MAX,
    MANAGED_BY,
    MAX_PATH_LENGTH,
    MAX_REPLICAS,
    MOUNT_PATH_PATTERN,
    QUANTITY_PATTERN,
)
from tfoperator.api.schema import Field, Table
from tfoperator.api.shares import PERCENT_PATTERN, POSITIVE_PERCENT_PATTERN
from tfoperator.api.templates import (
    Container,
    ContainerPort,
    PodTemplate,
    PodTemplateMetadata,
    PodTemplateSpec,
    VolumeSource,
)
from tfoperator.api.tensorboard_rules import MAX_LOG_DIR_LENGTH, MAX_VOLUMES
from tfoperator.api.threshold_rules import CONTRADICTION
from tfoperator.api.v1.types import (
    Checkpoint,
    CleanPodPolicy,
    JobCondition,
    ReplicaSpec,
    ReplicaStatus,
    ReplicaType,
    RestartPolicy,
    RunPolicy,
    SchedulingPolicy,
    SuccessPolicy,
    TensorBoard,
    TensorBoardServiceType,
    TensorBoardStatus,
    TFJobSpec,
    TFJobStatus,
)

__all__ = ["TABLE"]

_MAX_CONTAINERS = 64
_SECONDS = {"minimum": 0, "maximum": INT32_MAX}
_MANAGED_BY = "has({0}.runPolicy) && has({0}.runPolicy.managedBy) ? {0}.runPolicy.managedBy : ''"


def _enum(values: Any) -> list[str]:
    # The empty string is the Go operator's "unset".
    return list(dict.fromkeys(["", *(str(value) for value in values)]))


_REPLICA_SPECS: dict[str, Any] = {
    "minProperties": 1,
    "maxProperties": len(ReplicaType),
    "x-kubernetes-validations": [rule.on_change for rule in REPLICA_RULES],
}

_CONTAINERS: dict[str, Any] = {
    "minItems": 1,
    "maxItems": _MAX_CONTAINERS,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "x-kubernetes-validations": [
        cel_rule(
            f"self.exists(container, container.name == '{DEFAULT_CONTAINER_NAME}')",
            f'one container must be named "{DEFAULT_CONTAINER_NAME}"',
            "FieldValueRequired",
        )
    ],
}

_NAMED: dict[str, Any] = {
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "description": "Name of the volume."}
    },
}
_MOUNT: dict[str, Any] = {
    "required": ["mountPath", "name"],
    "properties": {
        "mountPath": {"type": "string", "minLength": 1, "description": "Where the container sees it."},
        **_NAMED["properties"],
    },
}

_SPEC: dict[type, dict[str, Field]] = {
    TFJobSpec: {
        "tfReplicaSpecs": Field(
            "The replicas by type: PS, Worker, Chief, Master, Evaluator. For example "
            '{"PS": {...}, "Worker": {...}}. The chief is Chief (or Master), else worker 0.',
            _REPLICA_SPECS,
        ),
        "runPolicy": Field("Policies over the whole job's life: clean-up, limits, suspension, gang scheduling."),
        "successPolicy": Field(
            "When a job without chief has succeeded: when worker 0 has (the default) or AllWorkers have.",
            {"enum": _enum(SuccessPolicy)},
        ),
        "minSucceededWorkers": Field(
            "The job has succeeded when so many workers have, whatever a chief does: a number or a share such as 80%, "
            "rounded up.",
            {"minimum": 1, "pattern": POSITIVE_PERCENT_PATTERN},
        ),
        "maxFailedWorkers": Field(
            "So many workers may fail for good while the job goes on: a number or a share such as 20%, rounded down. "
            "None if unset, or any number of dynamic ones.",
            {"minimum": 0, "pattern": PERCENT_PATTERN},
        ),
        "enableDynamicWorker": Field(
            "Each worker's TF_CONFIG names only itself and the parameter servers, so that workers can come and go."
        ),
        "clusterArguments": Field(
            "Each replica also gets the cluster as arguments of its container: --ps_hosts, --worker_hosts, --job_name, "
            "--task_index."
        ),
        "evaluatorInCluster": Field(
            "Whether the cluster that the replicas are told of lists the evaluators, which some training loops object "
            "to; as the operator's --evaluator-in-cluster says (true) if unset."
        ),
        "checkpoint": Field("Where the replicas keep checkpoints: a volume for all of them, with a directory per job."),
        "tensorBoard": Field("A TensorBoard beside the job, which stays until the job is deleted."),
    },
    ReplicaSpec: {
        "replicas": Field("How many pods of this type.", {"minimum": 0, "maximum": MAX_REPLICAS, "default": 1}),
        "restartPolicy": Field(
            "What happens to a replica that fails. ExitCode: 1-127 fails the job, 128-255 starts it again.",
            {"enum": _enum(RestartPolicy), "default": RestartPolicy.NEVER.value},
        ),
        "template": Field(
            f"The pod that each replica is made from; its container named {DEFAULT_CONTAINER_NAME} trains. PS may go "
            "without: it gets the stock parameter server, if the operator has an image for that.",
            view=PodTemplate,
        ),
    },
    Checkpoint: {
        "volume": Field(
            "A volume as in a pod's spec, without its name: {persistentVolumeClaim: {claimName: checkpoints}}.",
            {"minProperties": 1},
            view=VolumeSource,
        ),
        "mountPath": Field(
            "Where the training containers see the job's directory; TFOPERATOR_CHECKPOINT_DIR names it, too.",
            {"pattern": MOUNT_PATH_PATTERN, "maxLength": MAX_PATH_LENGTH},
        ),
    },
    TensorBoard: {
        "logDir": Field(
            "Where it looks for event files: a directory in one of its volumes, or a URL such as gs://bucket/logs.",
            {"minLength": 1, "maxLength": MAX_LOG_DIR_LENGTH},
        ),
        "image": Field("Image with TensorBoard; the operator's if unset."),
        "volumes": Field("Volumes of its pod, as in a pod's spec.", {"maxItems": MAX_VOLUMES, "items": _NAMED}),
        "volumeMounts": Field(
            "Where its container sees them, as in a container.", {"maxItems": MAX_VOLUMES, "items": _MOUNT}
        ),
        "resources": Field("Resources of its container."),
        "serviceType": Field(
            "How it can be reached: ClusterIP (the default), NodePort or LoadBalancer, at port 80.",
            {"enum": _enum(TensorBoardServiceType)},
        ),
    },
    RunPolicy: {
        "cleanPodPolicy": Field(
            "Which pods (and their services) are deleted when the job has ended: All, Running or None.",
            {"enum": _enum(CleanPodPolicy), "default": CleanPodPolicy.NONE.value},
        ),
        "ttlSecondsAfterFinished": Field("Seconds after its end when the job is deleted; never if unset.", _SECONDS),
        "activeDeadlineSeconds": Field(
            "Seconds after its start when a job that still runs fails.", {**_SECONDS, "format": "int64"}
        ),
        "backoffLimit": Field("How often replicas may be started again before the job fails.", _SECONDS),
        "schedulingPolicy": Field("Gang-scheduling wishes, passed on to the gang scheduler."),
        "suspend": Field(
            "While true the job has no pods. Queueing systems set it until there is room.", {"default": False}
        ),
        "managedBy": Field(
            "Who is in charge of the job, this operator if unset; can't be changed.",
            {
                "maxLength": 253,
                "x-kubernetes-validations": [
                    cel_rule(
                        f"self in [{', '.join(repr(manager) for manager in MANAGED_BY)}]",
                        f"must be {' or '.join(MANAGED_BY)}",
                    )
                ],
            },
        ),
    },
    SchedulingPolicy: {
        "minAvailable": Field("How many pods must find room at once; all if unset.", _SECONDS),
        "queue": Field(
            "The gang scheduler's queue; can't be changed.",
            {
                "maxLength": 253,
                "x-kubernetes-validations": [cel_rule("self == oldSelf", "can't be changed", "FieldValueForbidden")],
            },
        ),
        "minResources": Field(
            "Resources that must be free for the job to start.", {"additionalProperties": {"pattern": QUANTITY_PATTERN}}
        ),
        "priorityClass": Field("The gang's priority class."),
        "scheduleTimeoutSeconds": Field("Seconds that the gang scheduler waits for room.", _SECONDS),
    },
}

_TEMPLATE: dict[type, dict[str, Field]] = {
    VolumeSource: {},
    PodTemplate: {
        "metadata": Field("Labels and annotations of the pods, besides the operator's own labels."),
        "spec": Field("The pod's spec."),
    },
    PodTemplateMetadata: {
        "labels": Field("Labels of the pods."),
        "annotations": Field("Annotations of the pods."),
    },
    PodTemplateSpec: {
        "containers": Field(f"The pod's containers; one is named {DEFAULT_CONTAINER_NAME}.", _CONTAINERS),
        "initContainers": Field("Containers that run one after the other before the others start."),
        "restartPolicy": Field("Without effect: the replica's own restartPolicy holds."),
        "schedulerName": Field("The scheduler of the pods."),
    },
    Container: {
        "name": Field("Name of the container.", {"minLength": 1, "maxLength": MAX_NAME_LENGTH}),
        "image": Field("Container image.", {"minLength": 1}),
        "ports": Field("Ports that the container listens on; tfjob-port (2222 if there is none) is TensorFlow's."),
    },
    ContainerPort: {
        "name": Field("Name of the port."),
        "containerPort": Field("Number of the port.", {"minimum": 1, "maximum": 65535}),
    },
}

_STATUS: dict[type, dict[str, Field]] = {
    TFJobStatus: {
        "phase": Field("Pending, Running, Succeeded, Failed or Unknown: the job's state in one word."),
        "ready": Field("How many replicas are ready, of how many: 3/4."),
        "restarts": Field("How often replicas were started again."),
        "conditions": Field("What was observed about the job; the latest stands last."),
        "replicaStatuses": Field("What the replicas of each type do."),
        "startTime": Field("When the job was started (again, after a suspension)."),
        "completionTime": Field("When the job ended."),
        "tensorBoard": Field("Where the job's TensorBoard is."),
        "lastReconcileTime": Field("When the job was last compared with what the API server holds."),
        "observedGeneration": Field("The metadata.generation that this status was made for.", {"format": "int64"}),
    },
    JobCondition: {
        "type": Field("Created, Running, Ready, Restarting, Suspended, Succeeded or Failed."),
        "status": Field("True, False or Unknown."),
        "reason": Field("Why, in one word for programs."),
        "message": Field("Why, in a sentence for people."),
        "lastUpdateTime": Field("When the condition was last written."),
        "lastTransitionTime": Field("When its status last changed."),
    },
    TensorBoardStatus: {
        "url": Field("The address of its page."),
        "ready": Field("Whether the page answers."),
    },
    ReplicaStatus: {
        "active": Field("How many pods run."),
        "succeeded": Field("How many have succeeded."),
        "failed": Field("How many have failed."),
        "ready": Field("How many are ready."),
        "restarts": Field("How often replicas of this type were started again."),
        "restartCounts": Field("How often each replica was started again, by index, where it ever was."),
        "completedIndexes": Field("Indexes that have succeeded and won't run again: 0,2-5."),
        "failedIndexes": Field("Indexes that have failed for good and won't run again: 1,3."),
        "startedIndexes": Field("Indexes that have had a pod: 0-3."),
        "selector": Field("The label selector of the workers' pods, which autoscalers ask for."),
        "labelSelector": Field(
            "Written by other operators.", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        ),
    },
}

TABLE = Table(
    fields=_SPEC | _TEMPLATE | _STATUS,
    structs={
        TFJobSpec: {
            "required": ["tfReplicaSpecs"],
            "x-kubernetes-validations": [
                cel_rule(
                    f"({_MANAGED_BY.format('self')}) == ({_MANAGED_BY.format('oldSelf')})",
                    "runPolicy.managedBy can't be changed",
                    "FieldValueForbidden",
                    fieldPath=".runPolicy.managedBy",
                ),
                cel_rule(
                    "!has(self.minSucceededWorkers) || !has(self.successPolicy) || "
                    f"self.successPolicy != '{SuccessPolicy.ALL_WORKERS}'",
                    CONTRADICTION,
                    fieldPath=".minSucceededWorkers",
                ),
            ],
        },
        Checkpoint: {"required": ["mountPath", "volume"]},
        TensorBoard: {
            "required": ["logDir"],
            "x-kubernetes-validations": [
                cel_rule(
                    "!has(self.volumeMounts) || self.volumeMounts.all(mount, "
                    "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name))",
                    "volumeMounts must name volumes of the TensorBoard",
                    fieldPath=".volumeMounts",
                )
            ],
        },
        PodTemplate: {"required": ["spec"]},
        PodTemplateSpec: {"required": ["containers"]},
        Container: {"required": ["image", "name"]},
    },
    open_structs=frozenset(_TEMPLATE),
)
