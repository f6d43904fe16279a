"""Finds an API server and its credentials: from a kubeconfig, or from the service account of this process's pod.

The `kubernetes` package reads the service account. This package is imported inside functions, because the import costs
0.2 s and 21 MiB (version 37.0). Of the kubeconfigs, only those with an OpenID Connect issuer need the package.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tfoperator.base.clock import Clock
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import TokenFile
from tfoperator.kube.config.kubeconfig import read_kubeconfig
from tfoperator.kube.config.oidc import LoaderTarget
from tfoperator.kube.config.tls import TlsOptions
from tfoperator.kube.protocol.errors import ConfigError, NoClusterConfigured

__all__ = ["SERVICE_ACCOUNT", "ClusterConfig", "load_config", "load_in_cluster_config"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token (`token`), CA bundle (`ca.crt`) and namespace (`namespace`)."""


def load_config(
    kubeconfig: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Clock | None = None,
) -> ClusterConfig:
    """Return the configuration that `kubectl` would use.

    If `kubectl` would find no configuration, return the configuration of this process's pod. The function tries in this
    order: the file `kubeconfig`; the files that `KUBECONFIG` lists; `~/.kube/config`; the service account. The files
    that `KUBECONFIG` lists are merged: if several files set the same value, the first file wins, and missing files are
    skipped. `context` replaces the kubeconfig's current-context. Raises ConfigError. Its message suggests the next
    step.
    """
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise ConfigError(f"kubeconfig {path} does not exist, or is not a file: check --kubeconfig")
        return read_kubeconfig([path], context, clock)
    if listed := environ.get("KUBECONFIG", ""):
        paths = [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
        present = [path for path in paths if path.is_file()]
        if not present:
            raise ConfigError(f"KUBECONFIG is {listed}, but no such file exists: correct or unset the variable")
        return read_kubeconfig(present, context, clock)
    default = Path(environ.get("HOME") or "~", ".kube", "config").expanduser()
    if default.is_file():
        return read_kubeconfig([default], context, clock)
    if context:
        raise ConfigError(
            f"context {context!r} needs a kubeconfig, but {default} does not exist: set KUBECONFIG or --kubeconfig"
        )
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return load_in_cluster_config(environ=environ, service_account=service_account, clock=clock)
    raise NoClusterConfigured(
        f"no cluster is configured: set KUBECONFIG or --kubeconfig to a kubeconfig file, or create {default}; there "
        'is no service account of a pod either. For a control plane on this machine, run: eval "$(tfoperator local '
        'up)"'
    )


def load_in_cluster_config(
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Clock | None = None,
) -> ClusterConfig:
    """Return the configuration of this process's pod, from its service account.

    If the file of the token or of the CA changes, the client reads the file again. Raises ConfigError if the process
    does not run in a pod with a service account's token.
    """
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.incluster_config import InClusterConfigLoader

    target = LoaderTarget()
    token, ca = service_account / "token", service_account / "ca.crt"
    try:
        loader = InClusterConfigLoader(str(token), str(ca), try_refresh_token=False, environ=environ)
        loader.load_and_set(target)
    except ConfigException as error:
        raise ConfigError(
            f"in-cluster configuration: {error} A pod needs KUBERNETES_SERVICE_HOST and _PORT, {token} and {ca}; "
            "check that automountServiceAccountToken is not false"
        ) from None
    except OSError as error:
        raise ConfigError(f"in-cluster configuration: cannot read {error.filename}: {error.strerror}") from error
    try:
        namespace = (service_account / "namespace").read_text("utf-8").strip()
    except OSError:
        namespace = ""
    return ClusterConfig(
        server=target.host,
        namespace=namespace or "default",
        tls=TlsOptions(ca=target.ssl_ca_cert or ""),
        credentials=TokenFile(token, clock=clock),
        source="in-cluster service account",
    )
