"""What the CRD says about each field of a TFJob that its type doesn't: meaning, bounds, defaults, CEL rules.

Rules exist for what an API server can refuse itself; `tfoperator.api.validation` says the same in the operator and the
command line. Every rule is bounded (`maxItems`, `maxProperties`, `maxLength`): API servers refuse a CRD whose rules
might cost too much.
"""

from __future__ import annotations

from typing import Any

from tfoperator.api import templates
from tfoperator.api.int_or_percent import PERCENT_PATTERN, POSITIVE_PERCENT_PATTERN
from tfoperator.api.names import DEFAULT_CONTAINER_NAME, MAX_NAME_LENGTH
from tfoperator.api.schema.cel_rules import REPLICA_RULES, cel_rule, told_of_one
from tfoperator.api.schema.structs import Field, Table
from tfoperator.api.v1 import types
from tfoperator.api.validation.limits import (
    INT32_MAX,
    MANAGED_BY,
    MAX_BEHIND,
    MAX_LOG_DIR_LENGTH,
    MAX_PATH_LENGTH,
    MAX_REPLICAS,
    MAX_SHOWN_METRICS,
    MAX_VARIABLES,
    MAX_VOLUMES,
    MOUNT_PATH_PATTERN,
    QUANTITY_PATTERN,
)
from tfoperator.api.validation.thresholds import CONTRADICTION

_MAX_CONTAINERS = 64
_MAX_OBJECT_NAME_LENGTH = 253
_SECONDS = {"minimum": 0, "maximum": INT32_MAX}
_CHANGED = """'can\\'t be changed from "' + {} + '" to "' + {} + '"'"""
_MOUNTED = "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)"
_NETWORK = "has({0}.network) ? {0}.network : ''"
_MANAGED_BY = "has({0}.runPolicy) && has({0}.runPolicy.managedBy) ? {0}.runPolicy.managedBy : ''"


def _enum(values: Any) -> list[str]:
    # The empty string is the Go operator's "unset".
    return list(dict.fromkeys(["", *(str(value) for value in values)]))


_REPLICA_SPECS: dict[str, Any] = {
    "minProperties": 1,
    "maxProperties": len(types.ReplicaType),
    "x-kubernetes-validations": [rule.on_change for rule in REPLICA_RULES],
}

_CONTAINERS: dict[str, Any] = {
    "nullable": True,  # Kueue's webhook writes null where a parameter server has no template
    "minItems": 1,
    "maxItems": _MAX_CONTAINERS,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "x-kubernetes-validations": [
        cel_rule(
            f"self.exists(container, container.name == '{DEFAULT_CONTAINER_NAME}')",
            f'one must be named "{DEFAULT_CONTAINER_NAME}"',
            "FieldValueRequired",
            told=f'\'one must be named "{DEFAULT_CONTAINER_NAME}", but there is only "\' + self[0].name + '
            "(size(self) > 1 ? '\", ...' : '\"')",
        )
    ],
}


def _named(of: str, max_length: int) -> dict[str, Any]:
    name = {"type": "string", "minLength": 1, "maxLength": max_length, "description": f"Name of the {of}."}
    return {"required": ["name"], "properties": {"name": name}}


_NAMED = _named("volume", MAX_NAME_LENGTH)
_MOUNT: dict[str, Any] = {
    "required": ["mountPath", "name"],
    "properties": {
        "mountPath": {"type": "string", "minLength": 1, "description": "Where the container sees it."},
        **_NAMED["properties"],
    },
}

_SPEC: dict[type, dict[str, Field]] = {
    types.TFJobSpec: {
        "tfReplicaSpecs": Field(
            "The replicas by type: PS, Worker, Chief, Master, Evaluator. For example "
            '{"PS": {...}, "Worker": {...}}. The chief is Chief (or Master), else worker 0.',
            _REPLICA_SPECS,
        ),
        "runPolicy": Field("Policies over the whole job's life: clean-up, limits, suspension, gang scheduling."),
        "successPolicy": Field(
            "When a job without chief has succeeded: when worker 0 has (the default) or AllWorkers have.",
            {"enum": _enum(types.SuccessPolicy)},
        ),
        "minSucceededWorkers": Field(
            "The job has succeeded when so many workers have, whatever a chief does: a number or a percentage such as "
            "80%, rounded up.",
            {"minimum": 1, "pattern": POSITIVE_PERCENT_PATTERN},
        ),
        "maxFailedWorkers": Field(
            "So many workers may fail for good while the job goes on: a number or a percentage such as 20%, rounded "
            "down. None if unset, or any number of dynamic ones.",
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
        "network": Field(
            "By which headless services the replicas find each other: PerReplica, one for each, or PerJob, one for all "
            "of them; as the operator's --default-network says (PerReplica) if unset. Can't be changed.",
            {"enum": _enum(types.Network)},
        ),
        "checkpoint": Field("Where the replicas keep checkpoints: a volume for all of them, with a directory per job."),
        "tensorBoard": Field("A TensorBoard beside the job, which stays until the job is deleted."),
        "progress": Field(
            "Tell the replicas where to report the training's progress: {}. It needs an operator that serves progress "
            "(--progress-bind-address); one may do so for all jobs that don't say (--progress-default)."
        ),
    },
    types.ProgressReporting: {
        "enabled": Field("False: the replicas are told nothing, whatever the operator does for other jobs."),
    },
    types.ReplicaSpec: {
        "replicas": Field("How many pods of this type.", {"minimum": 0, "maximum": MAX_REPLICAS, "default": 1}),
        "restartPolicy": Field(
            "What happens to a replica whose program fails. ExitCode: 1-127 fails the job, 128-255 starts it again. A "
            "pod that is taken away (deleted, evicted, preempted, node lost) is made again under every policy.",
            {"enum": _enum(types.RestartPolicy), "default": types.RestartPolicy.NEVER.value},
        ),
        "template": Field(
            f"The pod that each replica is made from; its container named {DEFAULT_CONTAINER_NAME} trains. PS may go "
            "without: it gets the stock parameter server, if the operator has an image for that.",
            view=templates.PodTemplate,
        ),
    },
    types.Checkpoint: {
        "volume": Field(
            "A volume as in a pod's spec, without its name: {persistentVolumeClaim: {claimName: checkpoints}}.",
            {"minProperties": 1},
            view=templates.VolumeSource,
        ),
        "mountPath": Field(
            "Where the training containers see the job's directory; TFOPERATOR_CHECKPOINT_DIR names it, too.",
            {"pattern": MOUNT_PATH_PATTERN, "maxLength": MAX_PATH_LENGTH},
        ),
    },
    types.TensorBoard: {
        "logDir": Field(
            "Where it looks for event files: a directory in one of its volumes, or a URL such as gs://bucket/logs.",
            {"minLength": 1, "maxLength": MAX_LOG_DIR_LENGTH},
        ),
        "image": Field("Image with TensorBoard; the operator's if unset."),
        "volumes": Field("Volumes of its pod, as in a pod's spec.", {"maxItems": MAX_VOLUMES, "items": _NAMED}),
        "volumeMounts": Field(
            "Where its container sees them, as in a container.", {"maxItems": MAX_VOLUMES, "items": _MOUNT}
        ),
        "env": Field(
            "Variables of its container, as in a container; TENSORBOARD_HOST and TENSORBOARD_PORT are the operator's.",
            {"maxItems": MAX_VARIABLES, "items": _named("variable", MAX_PATH_LENGTH)},
        ),
        "imagePullSecrets": Field(
            "Secrets with which its image is pulled, as in a pod's spec.",
            {"maxItems": MAX_VOLUMES, "items": _named("secret", _MAX_OBJECT_NAME_LENGTH)},
        ),
        "nodeSelector": Field("Labels of the nodes on which it may run, as in a pod's spec."),
        "securityContext": Field(
            "The security context of its pod, as in a pod's spec. Where it doesn't say otherwise: runAsNonRoot: true, "
            "runAsUser: 65532, seccompProfile: {type: RuntimeDefault}."
        ),
        "serviceAccountName": Field("Service account of its pod, which gets none of its tokens."),
        "resources": Field("Resources of its container."),
        "serviceType": Field(
            "How it can be reached: ClusterIP (the default), NodePort or LoadBalancer, at port 80.",
            {"enum": _enum(types.TensorBoardServiceType)},
        ),
    },
    types.RunPolicy: {
        "cleanPodPolicy": Field(
            "What is deleted when the job has ended: All (pods and services), Running (pods that still run, and their "
            "services) or None. Unset, nothing that has run is deleted: after a failure pods that still run are "
            "stopped and keep their logs; after a success workers and evaluators finish, then parameter servers "
            "are stopped. An administrator may choose another meaning of unset (--default-clean-pod-policy).",
            {"enum": _enum(types.CleanPodPolicy)},
        ),
        "ttlSecondsAfterFinished": Field("Seconds after its end when the job is deleted; never if unset.", _SECONDS),
        "activeDeadlineSeconds": Field(
            "Seconds after its start when a job that still runs fails.", {**_SECONDS, "format": "int64"}
        ),
        "backoffLimit": Field(
            "How often replicas may be started again, all together: 2 means that the third failure ends the job.",
            _SECONDS,
        ),
        "restartScope": Field(
            "What is started again when a replica has to be: that Replica alone (if unset), or all of the Job's "
            "together, which synchronous training needs. Under Job kubelets restart no container by themselves.",
            {"enum": _enum(types.RestartScope)},
        ),
        "progressDeadlineSeconds": Field(
            "Seconds without progress after which a running job counts as Stalled: without a new report of progress "
            "or, where nothing reports, without a new line in the logs of its chief and workers. Never if unset.",
            {"minimum": 1, "maximum": INT32_MAX},
        ),
        "onStall": Field(
            "What happens then: Report (if unset) tells it; Restart starts again, by restartScope, the replicas that "
            "are behind, or all that train where none is; Fail ends the job.",
            {"enum": _enum(types.OnStall)},
        ),
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
                        told=f"'must be {' or '.join(MANAGED_BY)}, but is \"' + self + '\"'",
                    )
                ],
            },
        ),
    },
    types.SchedulingPolicy: {
        "minAvailable": Field("How many pods must find room at once; all if unset.", _SECONDS),
        "queue": Field(
            "The gang scheduler's queue; can't be changed.",
            {
                "maxLength": 253,
                "x-kubernetes-validations": [
                    cel_rule(
                        "self == oldSelf",
                        "can't be changed",
                        "FieldValueForbidden",
                        told=_CHANGED.format("oldSelf", "self"),
                    )
                ],
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
    templates.VolumeSource: {},
    templates.PodTemplate: {
        "metadata": Field("Labels and annotations of the pods, besides the operator's own labels."),
        "spec": Field("The pod's spec."),
    },
    templates.PodTemplateMetadata: {
        "labels": Field("Labels of the pods."),
        "annotations": Field("Annotations of the pods."),
    },
    templates.PodTemplateSpec: {
        "containers": Field(f"The pod's containers; one is named {DEFAULT_CONTAINER_NAME}.", _CONTAINERS),
        "initContainers": Field("Containers that run one after the other before the others start."),
        "restartPolicy": Field("Without effect: the replica's own restartPolicy holds."),
        "schedulerName": Field("The scheduler of the pods."),
    },
    templates.Container: {
        "name": Field("Name of the container.", {"minLength": 1, "maxLength": MAX_NAME_LENGTH}),
        "image": Field("Container image.", {"minLength": 1}),
        "ports": Field("Ports that the container listens on; tfjob-port (2222 if there is none) is TensorFlow's."),
    },
    templates.ContainerPort: {
        "name": Field("Name of the port."),
        "containerPort": Field("Number of the port.", {"minimum": 1, "maximum": 65535}),
    },
}

_STATUS: dict[type, dict[str, Field]] = {
    types.TFJobStatus: {
        "phase": Field("Pending, Running, Succeeded, Failed or Unknown: the job's state in one word."),
        "ready": Field("How many replicas are ready, of how many: 3/4."),
        "restarts": Field("How often replicas were started again; all of them together count once."),
        "jobRestarts": Field("How often all replicas were started again together (restartScope: Job)."),
        "conditions": Field("What was observed about the job; the latest stands last."),
        "replicaStatuses": Field("What the replicas of each type do."),
        "startTime": Field("When the job was started (again, after a suspension)."),
        "completionTime": Field("When the job ended."),
        "tensorBoard": Field("Where the job's TensorBoard is."),
        "progress": Field("What the training program has reported about itself."),
        "lastReconcileTime": Field(
            "When the job was last compared with what the API server holds, as far as that was recorded: with other "
            "changes, or after 5 minutes, then ever more rarely up to once an hour, until the job ends. "
            "A new leader goes on from there."
        ),
        "network": Field("PerJob if the job was started with one service for all its replicas, else unset."),
        "observedGeneration": Field("The metadata.generation that this status was made for.", {"format": "int64"}),
    },
    types.TrainingProgress: {
        "completion": Field("How much of the training is done: 43%."),
        "eta": Field("How long the rest will take, by the program's own estimate: 3m20s."),
        "percentage": Field("How much of the training is done, from 0 to 100."),
        "step": Field("The step that the training is at: the metric current_step.", {"format": "int64"}),
        "totalSteps": Field("How many steps there are in all: the metric total_steps.", {"format": "int64"}),
        "estimatedRemainingSeconds": Field("Seconds that the rest will take.", {"format": "int64"}),
        "metrics": Field("What else was reported, as name and value; 16 at most.", {"maxItems": MAX_SHOWN_METRICS}),
        "replica": Field("Whose report this is: worker-0."),
        "reportTime": Field("When that report came."),
        "lastUpdatedTime": Field("When any replica has reported last."),
        "behind": Field(
            "The replicas that are furthest behind, where several report; 8 at most.", {"maxItems": MAX_BEHIND}
        ),
    },
    types.Metric: {
        "name": Field("Name of the metric, such as loss."),
        "value": Field("Its value, as the program wrote it."),
    },
    types.ReplicaProgress: {
        "name": Field("The replica: worker-0."),
        "step": Field("The step that it has reported last.", {"format": "int64"}),
        "lastUpdatedTime": Field("When it has reported last."),
    },
    types.JobCondition: {
        "type": Field("Created, Running, Ready, Restarting, Stalled, Suspended, Succeeded or Failed."),
        "status": Field("True, False or Unknown."),
        "reason": Field("Why, in one word for programs."),
        "message": Field("Why, in a sentence for people."),
        "lastUpdateTime": Field("When the condition was last written."),
        "lastTransitionTime": Field("When its status last changed."),
    },
    types.TensorBoardStatus: {
        "url": Field("The address of its page."),
        "ready": Field("Whether the page answers."),
    },
    types.ReplicaStatus: {
        "active": Field("How many pods run; 0 when the job has ended, whatever still runs."),
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
        types.TFJobSpec: {
            "required": ["tfReplicaSpecs"],
            "x-kubernetes-validations": [
                cel_rule(
                    f"({_MANAGED_BY.format('self')}) == ({_MANAGED_BY.format('oldSelf')})",
                    "can't be changed",
                    "FieldValueForbidden",
                    told=_CHANGED.format(*(f"({_MANAGED_BY.format(one)})" for one in ("oldSelf", "self"))),
                    fieldPath=".runPolicy.managedBy",
                ),
                cel_rule(
                    f"({_NETWORK.format('self')}) == ({_NETWORK.format('oldSelf')})",
                    "can't be changed",
                    "FieldValueForbidden",
                    told=_CHANGED.format(*(f"({_NETWORK.format(one)})" for one in ("oldSelf", "self"))),
                    fieldPath=".network",
                ),
                cel_rule(
                    "!has(self.minSucceededWorkers) || !has(self.successPolicy) || "
                    f"self.successPolicy != '{types.SuccessPolicy.ALL_WORKERS}'",
                    CONTRADICTION,
                    fieldPath=".minSucceededWorkers",
                ),
            ],
        },
        types.Checkpoint: {"required": ["mountPath", "volume"]},
        types.TensorBoard: {
            "required": ["logDir"],
            "x-kubernetes-validations": [
                cel_rule(
                    f"!has(self.volumeMounts) || self.volumeMounts.all(mount, {_MOUNTED})",
                    "must name volumes of the TensorBoard",
                    told=told_of_one(
                        "self.volumeMounts",
                        "mount",
                        _MOUNTED,
                        "'\"' + mount.name + '\" is none of spec.tensorBoard.volumes'",
                    ),
                    fieldPath=".volumeMounts",
                )
            ],
        },
        templates.PodTemplate: {"required": ["spec"]},
        templates.PodTemplateSpec: {"required": ["containers"]},
        templates.Container: {"required": ["image", "name"]},
    },
    open_structs=frozenset(_TEMPLATE),
)
