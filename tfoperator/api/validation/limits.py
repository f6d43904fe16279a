"""Bounds and patterns of a TFJob's fields, which the validation and the CRD share."""

from __future__ import annotations

from tfoperator.api.queues import MANAGED_BY_MULTIKUEUE

MANAGED_BY_OPERATOR = "kubeflow.org/training-operator"
MANAGED_BY = (MANAGED_BY_OPERATOR, MANAGED_BY_MULTIKUEUE)
"""Who may be in charge of a job, as in the Go operator's webhook."""

NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""DNS-1035: a job's name begins the names of its services."""

INT32_MAX = 2**31 - 1

MAX_REPLICAS = 10_000
"""The most replicas of one type. TF_CONFIG names every replica in every pod, and at some ten thousand host names it
outgrows the 1.5 MiB that an API server stores for an object."""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""A resource quantity as API servers write the pattern in their own schemas."""

MOUNT_PATH_PATTERN = "^/+[^/:][^:]*$"
"""An absolute path below the root. Kubernetes doesn't allow colons in mount paths."""

MAX_PATH_LENGTH = 1024
"""Of a mount path; systems take up to 4096 bytes, and a program appends to it."""

MAX_LOG_DIR_LENGTH = 1024
"""Of a TensorBoard's log directory; object stores allow names of 1024 bytes."""

MAX_VARIABLES = 256
"""Of a TensorBoard's environment."""

MAX_VOLUMES = 64
"""Of a TensorBoard; far more than anybody mounts."""

MAX_SHOWN_METRICS = 16
"""Of the metrics that a training program reports, as many are in the status. Clients send up to 256: a status is
written often, and is no place for a history."""

MAX_BEHIND = 8
"""Replicas that a status names as being behind: enough to see which machine they have in common."""
