"""Names for progress reports, which the operator, its pods and the local control plane share.

Kubeflow Trainer's protocol (KEP-2779) defines the variables and the mount path: existing programs of users look for
them.
"""

from __future__ import annotations

from tfoperator.api.replicas.names import LABEL_PREFIX

URL_VARIABLE = "KUBEFLOW_TRAINER_SERVER_URL"
CA_VARIABLE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
TOKEN_VARIABLE = "KUBEFLOW_TRAINER_SERVER_TOKEN"

PROGRESS_VOLUME = "tfoperator-progress"
"""The volume that holds the files for the CA and the token."""
PROGRESS_MOUNT_PATH = "/var/run/secrets/kubeflow/trainer"
CA_FILE, TOKEN_FILE = "ca.crt", "token"
TOKEN_SECONDS = 3600
"""The life of a token; a kubelet renews it after four fifths."""

ANNOTATION_PROGRESS_CA = LABEL_PREFIX + "progress-ca"
"""On a pod: the authorities (PEM) whose certificates its programs trust when they report."""

PROGRESS_SERVICE = "tfoperator-progress"
PROGRESS_SECRET = "tfoperator-progress-cert"


def status_path(namespace: str, name: str) -> str:
    """Return the path of the URL to which the programs of a job report."""
    return f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/{name}/status"


def token_audience(namespace: str, name: str) -> str:
    """Return the audience of a token for a job's reports. Only the reports' service accepts it, for this job."""
    return f"progress.tfoperator.kubeflow.org/namespaces/{namespace}/tfjobs/{name}"
