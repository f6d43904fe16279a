"""The API server's paths of TFJobs, pods and services: of one namespace, or with "" of all namespaces."""

from __future__ import annotations


def tfjobs_path(namespace: str) -> str:
    """The collection of TFJobs."""
    return _path("/apis/kubeflow.org/v1", namespace, "tfjobs")


def pods_path(namespace: str) -> str:
    """The collection of pods."""
    return _path("/api/v1", namespace, "pods")


def services_path(namespace: str) -> str:
    """The collection of services."""
    return _path("/api/v1", namespace, "services")


def _path(group: str, namespace: str, resource: str) -> str:
    return f"{group}/namespaces/{namespace}/{resource}" if namespace else f"{group}/{resource}"
