"""Kubernetes: a component's container as a pod, and what is the same for every object that a launch creates.

Pure: `config.py` and `pod_builder.py` (what users write), `layers.py` (their pod specs over ours) and `pod_status.py`
(what a pod's status means). `api_calls.py` and `object_backend.py` serve any kind of object, `pod_backend.py` pods.
TFJobs build on all of that.
"""

from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls
from tfoperator.launcher.platforms.kubernetes.config import KubernetesPodPlatformConfig
from tfoperator.launcher.platforms.kubernetes.launcher import (
    COMPONENT_LABEL,
    KubernetesPodComponentLauncher,
    ObjectComponentLauncher,
)
from tfoperator.launcher.platforms.kubernetes.layers import MAIN, MergedPod
from tfoperator.launcher.platforms.kubernetes.object_backend import ObjectBackend
from tfoperator.launcher.platforms.kubernetes.pod_builder import Pod
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
