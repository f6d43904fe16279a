"""The CRD's additions to the type of each field of a TFJob: meaning, bounds, defaults, CEL rules.

Rules exist for errors that an API server can refuse itself; `tfoperator.api.validation` has the same for the operator
and the command line. Every rule is bounded (`maxItems`, `maxProperties`, `maxLength`): API servers refuse a CRD whose
rules might cost too much. This file has the fields of the spec; pod templates and the status have their own files.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.api import templates
from tfoperator.api.int_or_percent import PERCENT_PATTERN, POSITIVE_PERCENT_PATTERN
from tfoperator.api.names import DEFAULT_CONTAINER_NAME, MAX_NAME_LENGTH, OnStraggler, RestartMode
from tfoperator.api.pods.types import TEMPLATE, VOLUME_SOURCE
from tfoperator.api.schema.cel_rules import REPLICA_RULES, cel_rule, told_of_one
from tfoperator.api.schema.pod_template_fields import POD_TEMPLATE_FIELDS, POD_TEMPLATE_MEMBERS
from tfoperator.api.schema.status_fields import STATUS_FIELDS
from tfoperator.api.schema.structs import Field, Table
from tfoperator.api.v1 import status, types
from tfoperator.api.validation.limits import (
    INT32_MAX,
    MANAGED_BY,
    MAX_LOG_DIR_LENGTH,
    MAX_OBJECT_NAME_LENGTH,
    MAX_PATH_LENGTH,
    MAX_REPLICAS,
    MAX_VARIABLES,
    MAX_VOLUMES,
    MOUNT_PATH_PATTERN,
    QUANTITY_PATTERN,
)
from tfoperator.api.validation.restart_mode import IN_PLACE_TOGETHER
from tfoperator.api.validation.thresholds import CONTRADICTION

_SECONDS = {"minimum": 0, "maximum": INT32_MAX}
_IS_MOUNTED = "has(self.volumes) && self.volumes.exists(volume, volume.name == mount.name)"
_NETWORK = "(has({0}.network) ? {0}.network : '')"
_MANAGED_BY = "(has({0}.runPolicy) && has({0}.runPolicy.managedBy) ? {0}.runPolicy.managedBy : '')"


def _unchangeable(value: str, **more: str) -> dict[str, str]:
    """Return the rule that a value stays as it is: CEL, in which {0} is the object that has it."""
    old, new = value.format("oldSelf"), value.format("self")
    told = f"""'can\\'t be changed from "' + {old} + '" to "' + {new} + '"'"""
    return cel_rule(f"{new} == {old}", "can't be changed", "FieldValueForbidden", told=told, **more)


def _enum(values: Any) -> list[str]:
    # The empty string is the Go operator's "unset".
    return list(dict.fromkeys(["", *(str(value) for value in values)]))


_REPLICA_SPECS: dict[str, Any] = {
    "minProperties": 1,
    "maxProperties": len(types.ReplicaType),
    "x-kubernetes-validations": [rule.on_change for rule in REPLICA_RULES],
}


def _named(of: str, max_length: int) -> dict[str, Any]:
    name = {"type": "string", "minLength": 1, "maxLength": max_length, "description": f"Name of the {of}."}
    return {"required": ["name"], "properties": {"name": name}}


_NAMED_VOLUME = _named("volume", MAX_NAME_LENGTH)
_MOUNT: dict[str, Any] = {
    "required": ["mountPath", "name"],
    "properties": {
        "mountPath": {"type": "string", "minLength": 1, "description": "Where the container sees it."},
        **_NAMED_VOLUME["properties"],
    },
}

_SPEC: dict[type, dict[str, Field]] = {
    types.TFJobSpec: {
        "tfReplicaSpecs": Field(
            "The replicas by type: PS, Worker, Chief, Master, Evaluator. For example "
            '{"PS": {...}, "Worker": {...}}. The chief is Chief (or Master), else worker 0.',
            _REPLICA_SPECS,
        ),
        "runPolicy": Field("Policies for the whole job: clean-up, limits, restarts, suspension, gang scheduling."),
        "successPolicy": Field(
            "Condition for the success of a job without chief: worker 0 has succeeded (the default), or AllWorkers "
            "have.",
            {"enum": _enum(types.SuccessPolicy)},
        ),
        "minSucceededWorkers": Field(
            "Number or share of workers (3, or 80%, rounded up) whose success is the success of the job, whatever a "
            "chief does.",
            {"minimum": 1, "pattern": POSITIVE_PERCENT_PATTERN},
        ),
        "maxFailedWorkers": Field(
            "Number or share of workers (3, or 20%, rounded down) that may fail for good while the job goes on. "
            "Unset: none, "
            "but any number of dynamic workers.",
            {"minimum": 0, "pattern": PERCENT_PATTERN},
        ),
        "enableDynamicWorker": Field(
            "Whether the TF_CONFIG of a worker names only itself and the parameter servers, so that workers can come "
            "and go."
        ),
        "clusterArguments": Field(
            "Whether each replica also gets the cluster as arguments: --ps_hosts, --worker_hosts, --job_name, "
            "--task_index."
        ),
        "evaluatorInCluster": Field(
            "Whether the cluster in TF_CONFIG has the evaluators; --evaluator-in-cluster of the operator (true) if "
            "unset."
        ),
        "network": Field(
            "Headless services of the replicas: a service for each (PerReplica), or a single service for all (PerJob); "
            "--default-network of the operator (PerReplica) if unset. It can't be changed.",
            {"enum": _enum(types.Network)},
        ),
        "checkpoint": Field(
            "Place where the replicas keep checkpoints: a volume that all of them see, with a directory for each job."
        ),
        "tensorBoard": Field("TensorBoard beside the job, which stays until the job is deleted."),
        "progress": Field(
            "Reports of the training's progress: with {} the replicas get the address for them. The operator needs "
            "--progress-bind-address; --progress-default does the same for jobs without this field."
        ),
    },
    types.ProgressReporting: {
        "enabled": Field("Whether the replicas get the address; true if unset."),
    },
    types.ReplicaSpec: {
        "replicas": Field("Number of pods of this type.", {"minimum": 0, "maximum": MAX_REPLICAS, "default": 1}),
        "restartPolicy": Field(
            "Consequence of a failure of the program: Always and OnFailure start the replica again, Never fails the "
            "job, "
            "ExitCode fails the job after 1-127 and starts the replica again after 128-255. A pod that is deleted, "
            "evicted, "
            "preempted or lost with its node is always made again.",
            {"enum": _enum(types.RestartPolicy), "default": types.RestartPolicy.NEVER.value},
        ),
        "template": Field(
            f"The pod that each replica is made from; its container named {DEFAULT_CONTAINER_NAME} trains. PS may go "
            "without: it gets the stock parameter server, if the operator has an image for that.",
            view=templates.PodTemplate,
            kubernetes=TEMPLATE,
            members=POD_TEMPLATE_MEMBERS,
        ),
    },
    types.Checkpoint: {
        "volume": Field(
            "A volume of a pod's spec, without name: {persistentVolumeClaim: {claimName: checkpoints}}.",
            {"minProperties": 1},
            view=templates.VolumeSource,
            kubernetes=VOLUME_SOURCE,
            members={("name",): {"description": "It has no effect here: the operator names the volume."}},
            brief=True,
        ),
        "mountPath": Field(
            "Path at which the containers see the directory of the job; the variable TFOPERATOR_CHECKPOINT_DIR has "
            "it, too.",
            {"pattern": MOUNT_PATH_PATTERN, "maxLength": MAX_PATH_LENGTH},
        ),
    },
    types.TensorBoard: {
        "logDir": Field(
            "Place of the event files: a directory in one of its volumes, or a URL such as gs://bucket/logs.",
            {"minLength": 1, "maxLength": MAX_LOG_DIR_LENGTH},
        ),
        "image": Field("Image with TensorBoard; the image that the operator is configured with if unset."),
        "volumes": Field(
            "Volumes of its pod, as in a pod's spec.",
            {"maxItems": MAX_VOLUMES, "items": _NAMED_VOLUME},
            kubernetes="[]Volume",
            brief=True,
        ),
        "volumeMounts": Field(
            "Places at which its container sees the volumes.",
            {"maxItems": MAX_VOLUMES, "items": _MOUNT},
            kubernetes="[]VolumeMount",
        ),
        "env": Field(
            "Environment variables of its container. The operator sets TENSORBOARD_HOST and TENSORBOARD_PORT.",
            {"maxItems": MAX_VARIABLES, "items": _named("variable", MAX_PATH_LENGTH)},
            kubernetes="[]EnvVar",
        ),
        "imagePullSecrets": Field(
            "Secrets with the credentials for its image.",
            {"maxItems": MAX_VOLUMES, "items": _named("secret", MAX_OBJECT_NAME_LENGTH)},
            kubernetes="[]LocalObjectReference",
        ),
        "nodeSelector": Field("Labels that a node must have for its pod."),
        "securityContext": Field(
            "Security context of its pod. Members that are unset have the values runAsNonRoot: true, runAsUser: "
            "65532 and "
            "seccompProfile: {type: RuntimeDefault}.",
            kubernetes="PodSecurityContext",
        ),
        "serviceAccountName": Field("Service account of its pod, which gets no token of it."),
        "resources": Field("Resources of its container.", kubernetes="ResourceRequirements"),
        "serviceType": Field(
            "Type of its service, at port 80: ClusterIP, or NodePort and LoadBalancer where administrators allow them.",
            {"enum": _enum(types.TensorBoardServiceType)},
        ),
    },
    types.RunPolicy: {
        "cleanPodPolicy": Field(
            "Objects that are deleted when the job has ended: All pods and services, the Running pods, or None. "
            "Unset, and "
            "without --default-clean-pod-policy of the operator: after a failure the pods that run are stopped and "
            "keep "
            "their logs; after a success workers and evaluators finish, and then parameter servers are stopped.",
            {"enum": _enum(types.CleanPodPolicy)},
        ),
        "ttlSecondsAfterFinished": Field(
            "Seconds after the end of the job when it is deleted; never if unset.", _SECONDS
        ),
        "activeDeadlineSeconds": Field(
            "Seconds after the start of the job when it fails, if it still runs.", {**_SECONDS, "format": "int64"}
        ),
        "startDeadlineSeconds": Field(
            "Seconds after its start (or resumption) when the job fails if not all of its replicas have started; never "
            "if unset.",
            {"minimum": 1, "maximum": INT32_MAX},
        ),
        "backoffLimit": Field(
            "Number of restarts after failures that all replicas together may have: with 2 the third failure ends "
            "the job.",
            _SECONDS,
        ),
        "restartScope": Field(
            "Replicas that start again when one has to: that Replica alone (if unset), or all replicas of the Job, "
            "which "
            "synchronous training needs. Kubelets then restart nothing by themselves.",
            {"enum": _enum(types.RestartScope)},
        ),
        "restartMode": Field(
            "Way in which a failed replica starts again: in a new pod (Recreate, if unset), or in its own pod "
            "(InPlace, which "
            "needs Kubernetes 1.35).",
            {"enum": _enum(RestartMode)},
        ),
        "progressDeadlineSeconds": Field(
            "Seconds without progress, at least 30, after which a running job is Stalled: without a report or, where "
            "nothing reports, a line in the logs of its chief and workers. Never if unset.",
            {"minimum": types.LEAST_PROGRESS_DEADLINE, "maximum": INT32_MAX},
        ),
        "onStall": Field(
            "Consequence of a stall: a condition and an event (Report, if unset), or a new start of the replicas "
            "that are "
            "behind, or of all that train, by restartScope (Restart), or the end of the job (Fail).",
            {"enum": _enum(types.OnStall)},
        ),
        "onStraggler": Field(
            "Consequence for a replica that is slow, or fails on the same node again and again: none (Ignore, if "
            "unset), or a "
            "new start on another node (Restart).",
            {"enum": _enum(OnStraggler)},
        ),
        "schedulingPolicy": Field("Wishes that are passed on to the gang scheduler."),
        "suspend": Field(
            "Whether the job is suspended: it has no pods then. Queueing systems set it.", {"default": False}
        ),
        "managedBy": Field(
            "Controller that is in charge of the job; this operator if unset. It can't be changed.",
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
        "minAvailable": Field("Number of pods that must find room at the same time; all if unset.", _SECONDS),
        "queue": Field(
            "Queue of the gang scheduler. It can't be changed.",
            {
                "maxLength": 253,
                "x-kubernetes-validations": [_unchangeable("{0}")],
            },
        ),
        "minResources": Field(
            "Resources that must be free before the job starts.",
            {"additionalProperties": {"pattern": QUANTITY_PATTERN}},
        ),
        "priorityClass": Field("Priority class of the gang."),
        "scheduleTimeoutSeconds": Field("Seconds for which the gang scheduler waits for room.", _SECONDS),
    },
}

TABLE = Table(
    fields=_SPEC | POD_TEMPLATE_FIELDS | STATUS_FIELDS,
    structs={
        types.TFJobSpec: {
            "required": ["tfReplicaSpecs"],
            "x-kubernetes-validations": [
                _unchangeable(_MANAGED_BY, fieldPath=".runPolicy.managedBy"),
                _unchangeable(_NETWORK, fieldPath=".network"),
                cel_rule(
                    "!has(self.minSucceededWorkers) || !has(self.successPolicy) || "
                    f"self.successPolicy != '{types.SuccessPolicy.ALL_WORKERS}'",
                    CONTRADICTION,
                    fieldPath=".minSucceededWorkers",
                ),
            ],
        },
        types.RunPolicy: {
            "x-kubernetes-validations": [
                cel_rule(
                    "!has(self.restartMode) || !has(self.restartScope) || "
                    f"self.restartMode != '{RestartMode.IN_PLACE}' || "
                    f"self.restartScope != '{types.RestartScope.JOB}'",
                    IN_PLACE_TOGETHER,
                    fieldPath=".restartMode",
                )
            ]
        },
        types.Checkpoint: {"required": ["mountPath", "volume"]},
        types.TensorBoard: {
            "required": ["logDir"],
            "x-kubernetes-validations": [
                cel_rule(
                    f"!has(self.volumeMounts) || self.volumeMounts.all(mount, {_IS_MOUNTED})",
                    "must name volumes of the TensorBoard",
                    told=told_of_one(
                        "self.volumeMounts",
                        "mount",
                        _IS_MOUNTED,
                        "'\"' + mount.name + '\" is none of spec.tensorBoard.volumes'",
                    ),
                    fieldPath=".volumeMounts",
                )
            ],
        },
        # It has one writer, so who owns which of its values is of no use: a sixth of a stored job, and a tenth of the
        # API server's CPU for each write.
        status.TFJobStatus: {"x-kubernetes-map-type": "atomic"},
        templates.PodTemplate: {"required": ["spec"]},
        templates.PodTemplateSpec: {"required": ["containers"]},
        templates.TemplateContainer: {"required": ["image", "name"]},
        templates.TemplatePort: {"required": ["containerPort"]},
    },
    open_structs=frozenset(POD_TEMPLATE_FIELDS),
    pods=True,
)
"""The table of the CRD."""

OPEN_TABLE = msgspec.structs.replace(TABLE, pods=False)
"""The same with open pod templates: for API servers that are newer than the table of Kubernetes' types."""
