"""The life of any launch: input, record, driver, execution, verdict, publisher; nothing of containers or platforms.

What is launched (`component`, `executor_specs`), by whom (`component_launcher`, `runner`), in which environment
(`context`, `metadata`, `output`), and what outlives a crash (`record`)? How does it end (`verdict`, `errors`)?
"""

from tfoperator.launcher.core.component import (
    TMP_PATH,
    Artifact,
    ArtifactDict,
    Component,
    LaunchResult,
    PlatformConfig,
    merge_values,
)
from tfoperator.launcher.core.component_launcher import BaseComponentLauncher
from tfoperator.launcher.core.context import (
    CLEAN_UP_POLICY,
    CleanUp,
    LaunchContext,
    PendingLimits,
    RetryPolicy,
    connect,
)
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
from tfoperator.launcher.core.executor_specs import Executor, ExecutorClassSpec, ExecutorContainerSpec, ExecutorSpec
from tfoperator.launcher.core.metadata import Driver, Execution, LocalMetadata, Publisher, cache_key, fingerprint
from tfoperator.launcher.core.output import (
    MAX_OUTPUT_BYTES,
    OUTPUT_FILE,
    LocalOutputStore,
    MalformedOutput,
    Output,
    OutputStore,
    parse_output,
)
from tfoperator.launcher.core.record import LaunchRecord, RecordKeeper, WorkDirectory, recorded_execution
from tfoperator.launcher.core.runner import BaseComponentRunner, ComponentLaunchInfo, LocalComponentRunner
from tfoperator.launcher.core.verdict import ContainerEnd, VerdictKind, judge, read_output

__all__ = [
    "CLEAN_UP_POLICY",
    "MAX_OUTPUT_BYTES",
    "OUTPUT_FILE",
    "TMP_PATH",
    "AlreadyFailed",
    "Artifact",
    "ArtifactDict",
    "BaseComponentLauncher",
    "BaseComponentRunner",
    "CleanUp",
    "Component",
    "ComponentError",
    "ComponentLaunchInfo",
    "ContainerEnd",
    "Driver",
    "Execution",
    "ExecutionFailed",
    "Executor",
    "ExecutorClassSpec",
    "ExecutorContainerSpec",
    "ExecutorSpec",
    "LaunchCancelled",
    "LaunchContext",
    "LaunchInProgress",
    "LaunchRecord",
    "LaunchResult",
    "LauncherError",
    "LocalComponentRunner",
    "LocalMetadata",
    "LocalOutputStore",
    "MalformedOutput",
    "NoLauncherError",
    "Output",
    "OutputStore",
    "OwnershipLost",
    "PendingLimits",
    "PermanentFailure",
    "PlatformConfig",
    "PlatformConfigError",
    "PlatformUnavailable",
    "Publisher",
    "RecordKeeper",
    "RetryPolicy",
    "RetryableFailure",
    "TemplateError",
    "VerdictKind",
    "WorkDirectory",
    "WorkDirectoryError",
    "cache_key",
    "connect",
    "fingerprint",
    "judge",
    "merge_values",
    "parse_output",
    "read_output",
    "recorded_execution",
]
