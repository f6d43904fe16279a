"""Which cluster a launcher talks to: the one it runs in, else the kubeconfig's current context.

That is the order of the TFX design, and not kubectl's: a pipeline's step that runs in a pod launches into its own
cluster, whatever files its image holds. A kubeconfig or a context that is given comes first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tfoperator.kube.client import Client
from tfoperator.kube.config import SERVICE_ACCOUNT, ClusterConfig, load_config, load_in_cluster_config


def connect(kubeconfig: str | None = None, context: str | None = None) -> Client:
    """A client for the chosen cluster; the caller closes it. Raises ConfigError."""
    return Client(find_cluster(kubeconfig, context))


def find_cluster(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """How to reach the chosen cluster. Raises ConfigError."""
    in_cluster = environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists()
    if in_cluster and not kubeconfig and not context:
        return load_in_cluster_config(environ=environ, service_account=service_account)
    return load_config(kubeconfig, context, environ=environ, service_account=service_account)
