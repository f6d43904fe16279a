"""The choices of a TFJob: the values that fields of `tfoperator.api.v1.types` may have, as its author writes them."""

from enum import StrEnum


class ReplicaType(StrEnum):
    """The roles that a process can have in a TensorFlow cluster, as spelled in `tfReplicaSpecs`.

    TF_CONFIG, object names and labels use the lower-case form (`ReplicaType.lower()`).
    """

    PS = "PS"
    WORKER = "Worker"
    CHIEF = "Chief"
    MASTER = "Master"
    EVALUATOR = "Evaluator"


class RestartPolicy(StrEnum):
    """The consequence for a replica whose program fails. ExitCode: 1-127 is permanent, 128-255 retryable.

    If Kubernetes or a person took the pod, the program has not failed: the pod is made again under every policy.
    """

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class RestartScope(StrEnum):
    """The replicas that start again when one must: that replica alone (if unset), or all of the job's together."""

    REPLICA = "Replica"
    JOB = "Job"


class RestartMode(StrEnum):
    """How a replica is started again after an exit: in a new pod (if unset), or in its own, by the pod's kubelet."""

    RECREATE = "Recreate"
    IN_PLACE = "InPlace"


class Network(StrEnum):
    """The headless services by which the replicas find each other: one for each replica, or one for the whole job."""

    PER_REPLICA = "PerReplica"
    PER_JOB = "PerJob"


class OnStall(StrEnum):
    """The consequence of no progress for the deadline. Unset means Report: only a condition and an event."""

    REPORT = "Report"
    RESTART = "Restart"
    FAIL = "Fail"


class OnStraggler(StrEnum):
    """Whether a replica that is slow, or fails again and again on one node, is made again elsewhere. Unset: Ignore."""

    IGNORE = "Ignore"
    RESTART = "Restart"


class CleanPodPolicy(StrEnum):
    """The pods (and their services) that are deleted when a job has ended."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class SuccessPolicy(StrEnum):
    """The condition for success of a job without a chief: worker 0 (the empty default) or every worker."""

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


class TensorBoardServiceType(StrEnum):
    """The types of service under which a TensorBoard can be reached."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"
