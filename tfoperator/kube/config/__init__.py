"""Where an API server is and how to connect to it: from a kubeconfig, a pod's service account, or explicit values."""

from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import StaticCredentials, TokenFile, bearer
from tfoperator.kube.config.loading import SERVICE_ACCOUNT, load_config, load_in_cluster_config
from tfoperator.kube.config.tls import TlsOptions

__all__ = [
    "SERVICE_ACCOUNT",
    "ClusterConfig",
    "StaticCredentials",
    "TlsOptions",
    "TokenFile",
    "bearer",
    "load_config",
    "load_in_cluster_config",
]
