"""Names for progress reports, which the operator, the job's pods and the local control plane share.

The variables and the mount path are the same as in Kubeflow Trainer's protocol (KEP-2779), because existing programs of
users read them.
"""

from __future__ import annotations

from tfoperator.api.replicas.names import LABEL_PREFIX

URL_VARIABLE = "KUBEFLOW_TRAINER_SERVER_URL"
CA_VARIABLE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
TOKEN_VARIABLE = "KUBEFLOW_TRAINER_SERVER_TOKEN"

PROGRESS_VOLUME = "tfoperator-progress"
"""The name of the volume with the files for the CA and the token."""
PROGRESS_MOUNT_PATH = "/var/run/secrets/kubeflow/trainer"
CA_FILE, TOKEN_FILE = "ca.crt", "token"
TOKEN_SECONDS = 3600
"""The lifetime of a token; a kubelet renews the token after four fifths of this time."""

ANNOTATION_PROGRESS_CA = LABEL_PREFIX + "progress-ca"
"""On a pod: the certificate authorities (PEM) that its programs trust when they send reports."""

PROGRESS_SERVICE = "tfoperator-progress"
PROGRESS_SECRET = "tfoperator-progress-cert"


def status_path(namespace: str, name: str) -> str:
    """Return the path of the URL to which the programs of a job report."""
    return f"/apis/kubeflow.org/v1/namespaces/{namespace}/tfjobs/{name}/status"


def token_audience(namespace: str, name: str) -> str:
    """Return the audience of a token for a job's reports.

    Only the service for reports accepts such a token, and only for this job.
    """
    return f"progress.tfoperator.kubeflow.org/namespaces/{namespace}/tfjobs/{name}"
