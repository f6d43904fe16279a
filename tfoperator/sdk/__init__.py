"""The Python client: a program can create, watch and control TFJobs with it.

>>> from tfoperator.sdk import TFJobClient
>>> with TFJobClient() as client:  # doctest: +SKIP
...     client.create_job("job.yaml")
...     client.wait_for_job_conditions("mnist")

The package imports a name from its module only when a program first uses the name. So a program loads only the modules
that it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfoperator.kube.watching.following import Change, Follower
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

_PLACES = {
    "tfoperator.kube.watching.following": (
        "Change",
        "Follower",
    ),
    "tfoperator.sdk.client": ("TFJobClient",),
    "tfoperator.sdk.errors": (
        "FunctionSourceError",
        "JobAlreadyExists",
        "JobDeleted",
        "JobElsewhere",
        "JobEnded",
        "JobFailed",
        "JobInvalid",
        "JobNotFound",
        "JobQueued",
        "NamespaceNotFound",
        "NoSuchReplica",
        "NotInstalled",
        "TFJobError",
        "WaitTimeout",
        "WorkdirError",
    ),
    "tfoperator.sdk.events": ("JobEvent",),
    "tfoperator.sdk.functions": (
        "DEFAULT_BASE_IMAGE",
        "JobSource",
    ),
    "tfoperator.sdk.logs.history": ("ReplicaLog",),
    "tfoperator.sdk.logs.log_stream": ("JobLogStream",),
    "tfoperator.sdk.logs.pod_logs": ("LogLine",),
    "tfoperator.sdk.queues": (
        "JobQueue",
        "QueueState",
        "job_queues",
    ),
    "tfoperator.sdk.reader": ("DEFAULT_WAIT_TIMEOUT",),
    "tfoperator.sdk.stacks": ("ReplicaStacks",),
    "tfoperator.sdk.usage": (
        "MeasuredPod",
        "PodUsage",
        "measured_pods",
        "total",
    ),
}
"""The module of each name, for `__getattr__`. Type checkers read the imports under TYPE_CHECKING instead. A test checks
that these imports and `_PLACES` contain the same names.
"""

_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
