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
    JobEnded,
    JobFailed,
    JobInvalid,
    JobNotFound,
    NamespaceNotFound,
    NoSuchReplica,
    NotInstalled,
    TFJobError,
    WaitTimeout,
)
from tfoperator.sdk.events import JobEvent
from tfoperator.sdk.functions import DEFAULT_BASE_IMAGE
from tfoperator.sdk.history import ReplicaLog
from tfoperator.sdk.log_stream import JobLogStream
from tfoperator.sdk.logs import LogLine
from tfoperator.sdk.manifests import JobSource
from tfoperator.sdk.reader import DEFAULT_WAIT_TIMEOUT

__all__ = [
    "DEFAULT_BASE_IMAGE",
    "DEFAULT_WAIT_TIMEOUT",
    "Change",
    "Follower",
    "FunctionSourceError",
    "JobAlreadyExists",
    "JobDeleted",
    "JobEnded",
    "JobEvent",
    "JobFailed",
    "JobInvalid",
    "JobLogStream",
    "JobNotFound",
    "JobSource",
    "LogLine",
    "NamespaceNotFound",
    "NoSuchReplica",
    "NotInstalled",
    "ReplicaLog",
    "TFJobClient",
    "TFJobError",
    "WaitTimeout",
]
