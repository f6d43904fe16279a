"""Kubernetes: a component's container as a pod, and what is the same for every object that a launch creates.

Pure: `config.py` (what users write), `layers.py` (their pod specs over ours) and `pod_status.py` (what a pod's status
means). `api_calls.py` and `object_backend.py` serve any kind of object, `launcher.py` pods. TFJobs build on it.
"""

from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls
from tfoperator.launcher.platforms.kubernetes.config import MAIN, KubernetesPodPlatformConfig, Pod
from tfoperator.launcher.platforms.kubernetes.launcher import (
    COMPONENT_LABEL,
    KubernetesPodComponentLauncher,
    ObjectComponentLauncher,
)
from tfoperator.launcher.platforms.kubernetes.layers import MergedPod
from tfoperator.launcher.platforms.kubernetes.object_backend import ObjectBackend
from tfoperator.launcher.platforms.kubernetes.pod_status import PodView, container_end, decode_pod_view, has_started

__all__ = [
    "COMPONENT_LABEL",
    "MAIN",
    "ApiCalls",
    "KubernetesPodComponentLauncher",
    "KubernetesPodPlatformConfig",
    "MergedPod",
    "ObjectBackend",
    "ObjectComponentLauncher",
    "Pod",
    "PodView",
    "container_end",
    "decode_pod_view",
    "has_started",
]
