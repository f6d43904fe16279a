"""Bounds and patterns of a TFJob's fields, which the validation and the CRD share, and the checks of single values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from tfoperator.api.problems import Problem, Severity, shown
from tfoperator.api.queues import MANAGED_BY_MULTIKUEUE

MANAGED_BY_OPERATOR = "kubeflow.org/training-operator"
MANAGED_BY = (MANAGED_BY_OPERATOR, MANAGED_BY_MULTIKUEUE)
"""The controllers that may manage a job, as in the Go operator's webhook."""

NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""DNS-1035: a job's name begins the names of its services, which had to begin with a letter before Kubernetes 1.36."""

INT32_MAX = 2**31 - 1

MAX_REPLICAS = 10_000
"""The maximum number of replicas of one type. TF_CONFIG names every replica in every pod, and at some ten thousand host
names it outgrows the 1.5 MiB that an API server stores for an object."""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""A resource quantity as API servers write the pattern in their own schemas."""

MOUNT_PATH_PATTERN = "^/+[^/:][^:]*$"
"""An absolute path below the root. Kubernetes doesn't allow colons in mount paths."""

MAX_PATH_LENGTH = 1024
"""The maximum length of a mount path; systems accept up to 4096 bytes, and a program appends to it."""

MAX_OBJECT_NAME_LENGTH = 253
"""The maximum length of most objects' names: DNS-1123 subdomains."""

MAX_LOG_DIR_LENGTH = 1024
"""The maximum length of a TensorBoard's log directory; object stores allow names of 1024 bytes."""

MAX_VARIABLES = 256
"""The maximum number of a TensorBoard's environment variables."""

MAX_VOLUMES = 64
"""The maximum number of a TensorBoard's volumes; far more than needed."""

MAX_SHOWN_METRICS = 16
"""The number of a training program's reported metrics that the status contains. Clients send up to 256: a status is
written often, and is no place for a history."""

MAX_BEHIND = 8
"""The number of replicas that a status names as being behind: enough to find a machine that they share."""

MAX_NOT_A_NUMBER = 10
"""The number of reports in a row after which a loss that is no number is no accident; more are not counted."""

MAX_NODE_FAILURES = 16
"""The number of replicas' failures on nodes that a status remembers, the newest."""


def warning(path: str, message: str) -> Problem:
    """Return a problem that does not keep the job from running."""
    return Problem(path, message, Severity.WARNING)


def check_one_of(path: str, value: str | None, options: type[StrEnum]) -> Iterator[Problem]:
    """Yield a problem unless the value is unset or one of the options."""
    # The empty string is the Go operator's "unset".
    if value and value not in set(options):
        yield Problem(path, f"must be one of {listed(options)}, but is {shown(value)}")


def check_range(path: str, value: int | None, low: int, high: int) -> Iterator[Problem]:
    """Yield a problem unless the value is unset or within the bounds."""
    if value is None or low <= value <= high:
        return
    limit = f"must be {low} or more" if value < low else f"must be {high} or less"
    yield Problem(path, f"{limit}, but is {value if abs(value) < 10**20 else 'far beyond that'}")


def listed(options: type[StrEnum]) -> str:
    """Return the options as listed in a message."""
    return ", ".join(option for option in options if option)


def volume_sources(volume: Mapping[str, Any]) -> list[str]:
    """Return the kinds of volume that a volume of a pod's spec names: one, if it is valid."""
    return [kind for kind, source in volume.items() if kind != "name" and source is not None]
