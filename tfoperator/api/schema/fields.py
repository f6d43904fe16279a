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
        "runPolicy": Field("Clean-up, limits, suspension, gang scheduling."),
        "successPolicy": Field(
            "When a job without chief has succeeded: when worker 0 has (the default) or AllWorkers have.",
            {"enum": _enum(types.SuccessPolicy)},
        ),
        "minSucceededWorkers": Field(
            "The job has succeeded when so many workers (3, or 80%, rounded up) have, whatever a chief does.",
            {"minimum": 1, "pattern": POSITIVE_PERCENT_PATTERN},
        ),
        "maxFailedWorkers": Field(
            "So many workers (3, or 20%, rounded down) may fail for good while the job goes on. None if "
            "unset, or any number of dynamic ones.",
            {"minimum": 0, "pattern": PERCENT_PATTERN},
        ),
        "enableDynamicWorker": Field(
            "A worker's TF_CONFIG names only itself and the parameter servers, so that workers can come and go."
        ),
        "clusterArguments": Field(
            "Each replica also gets the cluster as arguments: --ps_hosts, --worker_hosts, --job_name, --task_index."
        ),
        "evaluatorInCluster": Field("Whether replicas are told of evaluators; --evaluator-in-cluster (true) if unset."),
        "network": Field(
            "Headless services of the replicas: PerReplica, one each; PerJob, one for all; "
            "--default-network (PerReplica) if unset. Can't be changed.",
            {"enum": _enum(types.Network)},
        ),
        "checkpoint": Field("Where replicas keep checkpoints: a volume for all, a directory per job."),
        "tensorBoard": Field("A TensorBoard, which stays until the job is deleted."),
        "progress": Field(
            "Tell the replicas where to report progress: {}. It needs --progress-bind-address; "
            "--progress-default does so for jobs that don't say."
        ),
    },
    types.ProgressReporting: {
        "enabled": Field("False: the replicas are not told."),
    },
    types.ReplicaSpec: {
        "replicas": Field("How many pods of this type.", {"minimum": 0, "maximum": MAX_REPLICAS, "default": 1}),
        "restartPolicy": Field(
            "What happens to a replica whose program fails. ExitCode: 1-127 fails the job, 128-255 starts "
            "it again. A pod that is taken (deleted, evicted, preempted, node lost) is always made again.",
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
            "Where containers see the job's directory; TFOPERATOR_CHECKPOINT_DIR names it, too.",
            {"pattern": MOUNT_PATH_PATTERN, "maxLength": MAX_PATH_LENGTH},
        ),
    },
    types.TensorBoard: {
        "logDir": Field(
            "Where event files are: a directory in one of its volumes, or a URL such as gs://bucket/logs.",
            {"minLength": 1, "maxLength": MAX_LOG_DIR_LENGTH},
        ),
        "image": Field("Image with TensorBoard; the operator's if unset."),
        "volumes": Field(
            "Volumes of its pod, as in a pod's spec.",
            {"maxItems": MAX_VOLUMES, "items": _NAMED_VOLUME},
            kubernetes="[]Volume",
            brief=True,
        ),
        "volumeMounts": Field(
            "Where its container sees them.", {"maxItems": MAX_VOLUMES, "items": _MOUNT}, kubernetes="[]VolumeMount"
        ),
        "env": Field(
            "Variables of its container; TENSORBOARD_HOST and TENSORBOARD_PORT are the operator's.",
            {"maxItems": MAX_VARIABLES, "items": _named("variable", MAX_PATH_LENGTH)},
            kubernetes="[]EnvVar",
        ),
        "imagePullSecrets": Field(
            "Secrets to pull its image.",
            {"maxItems": MAX_VOLUMES, "items": _named("secret", MAX_OBJECT_NAME_LENGTH)},
            kubernetes="[]LocalObjectReference",
        ),
        "nodeSelector": Field("Labels of nodes on which it may run."),
        "securityContext": Field(
            "Security context of its pod; what is unset: runAsNonRoot: true, runAsUser: 65532, "
            "seccompProfile: {type: RuntimeDefault}.",
            kubernetes="PodSecurityContext",
        ),
        "serviceAccountName": Field("Service account of its pod, without a token."),
        "resources": Field("Resources of its container.", kubernetes="ResourceRequirements"),
        "serviceType": Field(
            "How it is reached, at port 80: ClusterIP; NodePort or LoadBalancer where administrators allow it.",
            {"enum": _enum(types.TensorBoardServiceType)},
        ),
    },
    types.RunPolicy: {
        "cleanPodPolicy": Field(
            "What is deleted when the job has ended: All (pods and services), Running (those that run) or "
            "None. Unset, and no --default-clean-pod-policy: what runs after a failure is stopped and keeps "
            "its logs; after a success workers and evaluators finish, then parameter servers are stopped.",
            {"enum": _enum(types.CleanPodPolicy)},
        ),
        "ttlSecondsAfterFinished": Field("Seconds after its end when it is deleted; never if unset.", _SECONDS),
        "activeDeadlineSeconds": Field(
            "Seconds after its start when a job that still runs fails.", {**_SECONDS, "format": "int64"}
        ),
        "backoffLimit": Field(
            "How many restarts after failures there may be, of all together: 2 means that the third failure ends the "
            "job.",
            _SECONDS,
        ),
        "restartScope": Field(
            "What starts again when a replica has to: that Replica (if unset), or all of the Job's, which "
            "synchronous training needs; kubelets then restart nothing.",
            {"enum": _enum(types.RestartScope)},
        ),
        "restartMode": Field(
            "How a failed replica starts again: Recreate (if unset), in a new pod; InPlace, in its own "
            "(Kubernetes 1.35).",
            {"enum": _enum(RestartMode)},
        ),
        "progressDeadlineSeconds": Field(
            "Seconds without progress after which a running job is Stalled: without a report or, where nothing "
            "reports, a line in the logs of its chief and workers. Never if unset.",
            {"minimum": 1, "maximum": INT32_MAX},
        ),
        "onStall": Field(
            "What happens then: Report (if unset) tells it; Restart starts again, by restartScope, the "
            "replicas behind, or all that train; Fail ends the job.",
            {"enum": _enum(types.OnStall)},
        ),
        "onStraggler": Field(
            "What happens to a replica that is slow, or fails on one node again and again: Ignore (if "
            "unset), or Restart elsewhere.",
            {"enum": _enum(OnStraggler)},
        ),
        "schedulingPolicy": Field("Wishes, passed on to the gang scheduler."),
        "suspend": Field("While true it has no pods. Queueing systems set it.", {"default": False}),
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
        "minAvailable": Field("Pods that must find room at once; all if unset.", _SECONDS),
        "queue": Field(
            "The gang scheduler's queue; can't be changed.",
            {
                "maxLength": 253,
                "x-kubernetes-validations": [_unchangeable("{0}")],
            },
        ),
        "minResources": Field(
            "Resources that must be free to start.", {"additionalProperties": {"pattern": QUANTITY_PATTERN}}
        ),
        "priorityClass": Field("The gang's priority class."),
        "scheduleTimeoutSeconds": Field("Seconds that the gang scheduler waits for room.", _SECONDS),
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
