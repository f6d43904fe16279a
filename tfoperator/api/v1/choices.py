"""The choices of a TFJob: the values that fields of `tfoperator.api.v1.types` may have, as its author writes them."""

from enum import StrEnum


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


class RestartMode(StrEnum):
    """How a replica is started again after an exit: in a new pod (if unset), or in its own, by the pod's kubelet."""

    RECREATE = "Recreate"
    IN_PLACE = "InPlace"


class Network(StrEnum):
    """By which headless services the replicas find each other: one for each replica, or one for the whole job."""

    PER_REPLICA = "PerReplica"
    PER_JOB = "PerJob"


class OnStall(StrEnum):
    """What happens to a job that has made no progress for its deadline. Unset means Report: it is told, no more."""

    REPORT = "Report"
    RESTART = "Restart"
    FAIL = "Fail"


class OnStraggler(StrEnum):
    """Whether a replica that is slow, or fails again and again on one node, is made anew elsewhere. Unset: Ignore."""

    IGNORE = "Ignore"
    RESTART = "Restart"


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
