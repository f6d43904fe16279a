"""The parts of scenarios: jobs, steps, and what an API server allows. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = dict[str, Any]

QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"


class Act(StrEnum):
    """The things that can happen in a step."""

    CREATE = "create"
    SCALE = "scale"
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE_JOB = "delete-job"
    RUN = "run"
    SUCCEED = "succeed"
    FAIL = "fail"
    EVICT = "evict"
    RESTART_IN_PLACE = "restart-in-place"
    DELETE_POD = "delete-pod"
    DELETE_BOUND_POD = "delete-bound-pod"
    LOSE_NODE = "lose-node"
    NODE_SILENT = "node-silent"
    END_TERMINATING = "end-terminating"
    DELETE_SERVICE = "delete-service"
    KILL_OPERATOR = "kill-operator"
    PAUSE_OPERATOR = "pause-operator"
    CUT_NETWORK = "cut-network"
    COMPACT = "compact"
    STEP_CLOCK = "step-clock"
    RESTART_API = "restart-api-server"
    PAUSE_ETCD = "pause-etcd"
    RUN_TENSORBOARD = "run-tensorboard"
    FAIL_TENSORBOARD_POD = "fail-tensorboard-pod"
    DELETE_TENSORBOARD = "delete-tensorboard"
    CHANGE_TENSORBOARD = "change-tensorboard"
    ADMIT_GANG = "admit-gang"
    DELETE_POD_GROUP = "delete-pod-group"
    CHANGE_GANG = "change-gang"
    ORPHAN = "orphan"
    CREATE_FOREIGN = "create-foreign"
    DELETE_FOREIGN = "delete-foreign"
    REPORT = "report"


@dataclass(frozen=True)
class JobShape:
    """A TFJob to be made. `tensorboard` is its `spec.tensorBoard`, `scheduling` its `schedulingPolicy`; each replica
    asks for so much `cpu`. With `reports` its programs report progress, when a step asks for it and at the end. With
    `sidecar` each pod has a second container, which never ends by itself. `queue` is a LocalQueue of Kueue, `priority`
    a class of its priorities. `elastic` is its `spec.elasticPolicy`.
    """

    name: str
    replicas: dict[str, int]
    restart_policy: str
    success_policy: str = ""
    dynamic: bool = False
    suspended: bool = False
    managed_by: str = ""
    min_succeeded: int | str | None = None
    max_failed: int | str | None = None
    run_policy: Json = field(default_factory=dict)
    tensorboard: Json | None = None
    scheduling: Json | None = None
    cpu: str = ""
    network: str = ""
    reports: bool = False
    sidecar: bool = False
    queue: str = ""
    priority: str = ""
    elastic: Json | None = None

    def manifest(self) -> Json:
        """The TFJob, ready to be posted."""
        container: Json = {"name": "tensorflow", "image": "example.invalid/train:1", "command": ["train"]}
        if self.cpu:
            container["resources"] = {"requests": {"cpu": self.cpu}}
        beside = [{"name": "sidecar", "image": "example.invalid/proxy:1"}] if self.sidecar else []
        template = {"spec": {"containers": [*beside, container], "terminationGracePeriodSeconds": 1}}
        specs = {
            kind: {"replicas": count, "restartPolicy": self.restart_policy, "template": template}
            for kind, count in self.replicas.items()
        }
        spec: Json = {"tfReplicaSpecs": specs, "runPolicy": {**self.run_policy, "suspend": self.suspended}}
        if self.success_policy:
            spec["successPolicy"] = self.success_policy
        if self.dynamic:
            spec["enableDynamicWorker"] = True
        thresholds = {"minSucceededWorkers": self.min_succeeded, "maxFailedWorkers": self.max_failed}
        spec |= {name: share for name, share in thresholds.items() if share is not None}
        if self.elastic is not None:
            spec["elasticPolicy"] = self.elastic
        if self.network:
            spec["network"] = self.network
        if self.managed_by:
            spec["runPolicy"]["managedBy"] = self.managed_by
        if self.scheduling is not None:
            spec["runPolicy"]["schedulingPolicy"] = self.scheduling
        if self.tensorboard is not None:
            spec["tensorBoard"] = self.tensorboard
        metadata: Json = {"name": self.name}
        labels = {QUEUE_LABEL: self.queue, PRIORITY_LABEL: self.priority}
        if self.queue:
            metadata["labels"] = {label: value for label, value in labels.items() if value}
        return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Step:
    """An act after `after` real seconds. `pick` (0 to 1) selects an existing object. `value` is a value for the act."""

    after: float
    act: Act
    job: int = 0
    pick: float = 0.0
    value: Any = None

    def __str__(self) -> str:
        value = "" if self.value is None else f" {self.value}"
        return f"+{self.after:.3f} s {self.act} job {self.job} pick {self.pick:.2f}{value}"


@dataclass(frozen=True)
class Profile:
    """The acts and faults that a server supports.

    `wall_speed` as in `clock.Origin`; `real` has an etcd and restarts; `gangs`: it serves PodGroups.
    """

    real: bool
    wall_speed: float
    gangs: bool = True
