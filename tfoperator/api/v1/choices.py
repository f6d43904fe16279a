"""The allowed values of a TFJob's fields (of `v1.types` and `v1.parts`), as the author of a job writes them."""

from enum import StrEnum


class ReplicaType(StrEnum):
    """The replica types: the roles of processes in a TensorFlow cluster, as spelled in `tfReplicaSpecs`.

    TF_CONFIG, object names and labels use the lower-case form (`ReplicaType.lower()`).
    """

    PS = "PS"
    WORKER = "Worker"
    CHIEF = "Chief"
    MASTER = "Master"
    EVALUATOR = "Evaluator"


class RestartPolicy(StrEnum):
    """The action for a replica whose program ends.

    With Always, the program is restarted also after exit code 0, unless all replicas restart together (`restartScope`).
    With ExitCode, the codes 1-127 are permanent, and the codes 128-255 are retryable. If Kubernetes or a person took
    the pod away, the program has not failed: under every policy the operator creates the pod again.
    """

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class RestartScope(StrEnum):
    """The replicas that restart when one replica must restart: only that replica (if unset), or all replicas."""

    REPLICA = "Replica"
    JOB = "Job"


class RestartMode(StrEnum):
    """How a replica is restarted after an exit: in a new pod (if unset), or in the same pod, by the pod's kubelet."""

    RECREATE = "Recreate"
    IN_PLACE = "InPlace"


class Network(StrEnum):
    """The headless services by which the replicas find each other: one for each replica, or one for the whole job."""

    PER_REPLICA = "PerReplica"
    PER_JOB = "PerJob"


class OnStall(StrEnum):
    """The action if a job makes no progress for `progressDeadlineSeconds`.

    Unset means Report: the operator only sets a condition and sends an event.
    """

    REPORT = "Report"
    RESTART = "Restart"
    FAIL = "Fail"


class OnStraggler(StrEnum):
    """Whether the operator moves a replica to another node if it is slow, or if it fails again and again on one node.

    Unset means Ignore: the operator moves no replica.
    """

    IGNORE = "Ignore"
    RESTART = "Restart"


class CleanPodPolicy(StrEnum):
    """The pods (and their services) that are deleted when a job has ended."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


class SuccessPolicy(StrEnum):
    """The condition for success of a job without a chief: worker 0 succeeds (the empty default), or all workers do."""

    DEFAULT = ""
    ALL_WORKERS = "AllWorkers"


class TensorBoardServiceType(StrEnum):
    """The service types for access to a TensorBoard."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"
