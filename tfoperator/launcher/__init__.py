"""Runs one containerised component of a pipeline anywhere: as a Docker container, a Kubernetes pod, a TFJob, or here.

A component says what runs, platform configs say where and how, a launcher does it: reliably, over crashes of its own.
The design is the TFX RFC 20190829 (container component execution).

>>> from tfoperator.launcher import Artifact, Component, ExecutorContainerSpec
>>> step = Component(
...     "count",
...     ExecutorContainerSpec("busybox:1.36", ["wc"], ["-l", "{{ inputs.text.uri }}"]),
...     inputs={"text": [Artifact("/data/book.txt")]},
... )
"""

from tfoperator.launcher.base import BaseComponentLauncher, LaunchResult
from tfoperator.launcher.component import Artifact, Component
from tfoperator.launcher.context import CleanUp, LaunchContext, PendingLimits
from tfoperator.launcher.docker import DockerComponentLauncher
from tfoperator.launcher.errors import (
    AlreadyFailed,
    ComponentError,
    ExecutionFailed,
    LaunchCancelled,
    LauncherError,
    LaunchInProgress,
    NoLauncherError,
    PermanentFailure,
    PlatformConfigError,
    PlatformUnavailable,
    RetryableFailure,
    TemplateError,
    WorkDirectoryError,
)
from tfoperator.launcher.executor_specs import Executor, ExecutorClassSpec, ExecutorContainerSpec, ExecutorSpec
from tfoperator.launcher.in_process import InProcessComponentLauncher
from tfoperator.launcher.kubernetes_pod import KubernetesPodComponentLauncher
from tfoperator.launcher.metadata import Driver, Execution, LocalMetadata, Publisher
from tfoperator.launcher.output import LocalOutputStore, OutputStore
from tfoperator.launcher.platform_configs import (
    DockerPlatformConfig,
    KubernetesPodPlatformConfig,
    PlatformConfig,
    TFJobPlatformConfig,
)
from tfoperator.launcher.pod_builder import Pod
from tfoperator.launcher.retry import RetryPolicy
from tfoperator.launcher.runner import BaseComponentRunner, ComponentLaunchInfo, LocalComponentRunner
from tfoperator.launcher.tfjob import TFJobComponentLauncher

__all__ = [
    "AlreadyFailed",
    "Artifact",
    "BaseComponentLauncher",
    "BaseComponentRunner",
    "CleanUp",
    "Component",
    "ComponentError",
    "ComponentLaunchInfo",
    "DockerComponentLauncher",
    "DockerPlatformConfig",
    "Driver",
    "Execution",
    "ExecutionFailed",
    "Executor",
    "ExecutorClassSpec",
    "ExecutorContainerSpec",
    "ExecutorSpec",
    "InProcessComponentLauncher",
    "KubernetesPodComponentLauncher",
    "KubernetesPodPlatformConfig",
    "LaunchCancelled",
    "LaunchContext",
    "LaunchInProgress",
    "LaunchResult",
    "LauncherError",
    "LocalComponentRunner",
    "LocalMetadata",
    "LocalOutputStore",
    "NoLauncherError",
    "OutputStore",
    "PendingLimits",
    "PermanentFailure",
    "PlatformConfig",
    "PlatformConfigError",
    "PlatformUnavailable",
    "Pod",
    "Publisher",
    "RetryPolicy",
    "RetryableFailure",
    "TFJobComponentLauncher",
    "TFJobPlatformConfig",
    "TemplateError",
    "WorkDirectoryError",
]
