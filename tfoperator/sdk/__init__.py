"""The Python client: create, watch and steer TFJobs from a program.

>>> from tfoperator.sdk import TFJobClient
>>> with TFJobClient() as client:  # doctest: +SKIP
...     client.create_job("job.yaml")
...     client.wait_for_job_conditions("mnist")
"""

from tfoperator.kube.following import Change, Follower
from tfoperator.sdk.client import TFJobClient
from tfoperator.sdk.errors import (
    FunctionSourceError,
    JobAlreadyExists,
    JobDeleted,
    JobElsewhere,
    JobEnded,
    JobFailed,
    JobInvalid,
    JobNotFound,
    JobQueued,
    NamespaceNotFound,
    NoSuchReplica,
    NotInstalled,
    TFJobError,
    WaitTimeout,
    WorkdirError,
)
from tfoperator.sdk.events import JobEvent
from tfoperator.sdk.functions import DEFAULT_BASE_IMAGE, JobSource
from tfoperator.sdk.logs.history import ReplicaLog
from tfoperator.sdk.logs.log_stream import JobLogStream
from tfoperator.sdk.logs.pod_logs import LogLine
from tfoperator.sdk.queues import JobQueue, QueueState, job_queues
from tfoperator.sdk.reader import DEFAULT_WAIT_TIMEOUT
from tfoperator.sdk.stacks import ReplicaStacks
from tfoperator.sdk.usage import MeasuredPod, PodUsage, measured_pods, total

__all__ = [
    "DEFAULT_BASE_IMAGE",
    "DEFAULT_WAIT_TIMEOUT",
    "Change",
    "Follower",
    "FunctionSourceError",
    "JobAlreadyExists",
    "JobDeleted",
    "JobElsewhere",
    "JobEnded",
    "JobEvent",
    "JobFailed",
    "JobInvalid",
    "JobLogStream",
    "JobNotFound",
    "JobQueue",
    "JobQueued",
    "JobSource",
    "LogLine",
    "MeasuredPod",
    "NamespaceNotFound",
    "NoSuchReplica",
    "NotInstalled",
    "PodUsage",
    "QueueState",
    "ReplicaLog",
    "ReplicaStacks",
    "TFJobClient",
    "TFJobError",
    "WaitTimeout",
    "WorkdirError",
    "job_queues",
    "measured_pods",
    "total",
]
