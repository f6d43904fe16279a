"""Runs one containerised component of a pipeline: as a Docker container, a Kubernetes pod, a TFJob, or in this process.

A component defines a program. Platform configs define where and how the program runs. A launcher runs the program. If
the launcher crashes, another launcher resumes the run. The design is the TFX RFC 20190829 (container component
execution).

>>> from tfoperator.launcher import Artifact, Component, ExecutorContainerSpec
>>> step = Component(
...     "count",
...     ExecutorContainerSpec("busybox:1.36", ["wc"], ["-l", "{{ inputs.text.uri }}"]),
...     inputs={"text": [Artifact("/data/book.txt")]},
... )
"""

from tfoperator.launcher.core.component import (
    Artifact,
    Component,
    Executor,
    ExecutorArtifact,
    ExecutorClassSpec,
    ExecutorContainerSpec,
    ExecutorSpec,
    LaunchResult,
    PlatformConfig,
)
from tfoperator.launcher.core.component_launcher import BaseComponentLauncher
from tfoperator.launcher.core.context import CleanUp, LaunchContext, PendingLimits, RetryPolicy
from tfoperator.launcher.core.errors import (
    AlreadyFailed,
    ComponentError,
    ExecutionFailed,
    LaunchCancelled,
    LauncherError,
    LaunchInProgress,
    NoLauncherError,
    OwnershipLost,
    PermanentFailure,
    PlatformConfigError,
    PlatformUnavailable,
    RetryableFailure,
    TemplateError,
    WorkDirectoryError,
)
from tfoperator.launcher.core.metadata import Driver, Execution, LocalMetadata, Publisher
from tfoperator.launcher.core.output import LocalOutputStore, OutputStore
from tfoperator.launcher.core.runner import (
    BaseComponentRunner,
    ComponentLaunchInfo,
    LocalComponentRunner,
    named_launcher,
)
from tfoperator.launcher.platforms.docker.launcher import DockerComponentLauncher, DockerPlatformConfig
from tfoperator.launcher.platforms.in_process import InProcessComponentLauncher
from tfoperator.launcher.platforms.kubernetes.config import KubernetesPodPlatformConfig, Pod
from tfoperator.launcher.platforms.kubernetes.launcher import KubernetesPodComponentLauncher
from tfoperator.launcher.platforms.process import ProcessComponentLauncher, ProcessPlatformConfig
from tfoperator.launcher.platforms.tfjob import TFJobComponentLauncher, TFJobPlatformConfig

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
    "ExecutorArtifact",
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
    "OwnershipLost",
    "PendingLimits",
    "PermanentFailure",
    "PlatformConfig",
    "PlatformConfigError",
    "PlatformUnavailable",
    "Pod",
    "ProcessComponentLauncher",
    "ProcessPlatformConfig",
    "Publisher",
    "RetryPolicy",
    "RetryableFailure",
    "TFJobComponentLauncher",
    "TFJobPlatformConfig",
    "TemplateError",
    "WorkDirectoryError",
    "named_launcher",
]
