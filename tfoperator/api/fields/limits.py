"""Limits and patterns of a TFJob's fields, for the declarations of the fields and for other code that respects them."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple


class Pattern(NamedTuple):
    """The form of a text: a regular expression for the whole text, and a message.

    The {} in the message is replaced by the text that does not have the form.
    """

    expression: str
    message: str

    def fits(self, text: str) -> bool:
        """Return whether the text has the form."""
        return _compiled(self.expression).fullmatch(text) is not None


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.ASCII)


MANAGED_BY_OPERATOR = "kubeflow.org/training-operator"
MANAGED_BY_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""A value of `runPolicy.managedBy`: Kueue runs the job on another cluster, and this cluster's operator ignores it."""

MANAGED_BY = (MANAGED_BY_OPERATOR, MANAGED_BY_MULTIKUEUE)
"""The controllers that may manage a job, as in the Go operator's webhook."""

NAME_PATTERN = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""DNS-1035, for a job's name: the names of the job's services begin with it, and before Kubernetes 1.36 they had to
begin with a letter.
"""

MAX_NAME_LENGTH = 63
"""The maximum length of a service's name: it is a DNS label (RFC 1035). A pod has the same name as its service, so the
limit applies to pods, too.
"""

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1

MAX_REPLICAS = 10_000
"""The maximum number of replicas of one type. TF_CONFIG names every replica, and each pod has it. With about ten
thousand host names, TF_CONFIG is larger than the 1.5 MiB that an API server stores for an object.
"""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""A resource quantity: the pattern that API servers have in their own schemas."""

QUANTITY = Pattern(QUANTITY_PATTERN, "must be a quantity such as 4, 500m or 8Gi, but is {}")

MOUNT_PATH = Pattern("^/+[^/:][^:]*$", "must be an absolute path, not / itself and without colons, but is {}")
"""Mount paths: Kubernetes doesn't allow colons in them."""

MAX_PATH_LENGTH = 1024
"""The maximum length of a mount path. Systems accept up to 4096 bytes, and a program appends names to the path."""

WORK_DIR = Pattern(
    "^(/+[^/].*|[a-z][a-z0-9+.-]*://.+)$",
    "must be an absolute path, not / itself, or a URL such as gs://bucket/journal, but is {}",
)
"""The form of `workDir`, the directory of a dispatcher's journal: a path, or a URL of one of TensorFlow's file systems.
"""

MAX_PORT = 65535

MAX_DATA_WORKERS = 1_000
"""The maximum number of data workers of a job: each client of the data service connects to each of them."""

MAX_OBJECT_NAME_LENGTH = 253
"""The maximum length of most objects' names: DNS-1123 subdomains."""

MAX_LOG_DIR_LENGTH = 1024
"""The maximum length of a TensorBoard's log directory; object stores allow names of 1024 bytes."""

MAX_VARIABLES = 256
"""The maximum number of a TensorBoard's environment variables."""

MAX_VOLUMES = 64
"""The maximum number of a TensorBoard's volumes; far more than needed."""

MAX_SHOWN_METRICS = 16
"""The maximum number of metrics from a training program's report in the status. Clients send up to 256 metrics. A
status is written often, so it must stay small.
"""

MAX_BEHIND = 8
"""The maximum number of replicas that a status names as behind the others. Eight names suffice to see whether the slow
replicas run on one machine.
"""

MAX_NOT_A_NUMBER = 10
"""After this number of reports in a row with a loss that is not a number, the operator sets the condition Diverged. The
count does not increase further.
"""

MAX_WAITING_ENTRIES = 16
"""The maximum number of entries in `status.waiting`, each of which is a reason why replicas wait."""

MAX_NODE_FAILURES = 16
"""The maximum number of entries in `status.nodeFailures`, each for a replica and a node."""
