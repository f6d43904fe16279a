"""Kubernetes: a component's container as a pod, and the common part of all objects of a launch.

No I/O: `config.py` (users' configs), `layers.py` (pod specs over the launcher's), `pod_status.py` (meaning of a pod's
status). `api_calls.py` and `object_backend.py` serve any kind of object, `launcher.py` pods. TFJobs build on it.
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
