"""The failures of a launch: unusable input, a permanent failure, or a retryable failure.

`ComponentError` means that the input or the working directory can't be used: it is raised before the launcher creates a
container. `PermanentFailure` and `RetryableFailure` are outcomes of an execution. The command line exits with 1 for
`PermanentFailure` and with 75 for `RetryableFailure`. Messages name the component and suggest the next step. The
*launch record* is the stored progress of a launch (see `record`).
"""

from __future__ import annotations


class LauncherError(Exception):
    """The base class of all errors of `tfoperator.launcher`."""


class ComponentError(LauncherError):
    """The input is invalid. The error is raised before the launcher creates a container."""


class TemplateError(ComponentError):
    """Placeholders of a container are malformed, or name an unknown input, output or parameter.

    `problems` has a line for each invalid placeholder.
    """

    def __init__(self, component: str, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(
            "\n".join([f"component {component}: placeholders of its container can't be replaced:", *problems])
        )


class PlatformConfigError(ComponentError):
    """A platform config is malformed, or can't be merged with another config."""


class NoLauncherError(ComponentError):
    """The component can't be launched: no launcher accepts the component with any of its platform configs."""


class WorkDirectoryError(ComponentError):
    """The working directory can't be used, or has the record of another launch."""


class LaunchInProgress(WorkDirectoryError):
    """Another launcher uses this working directory, or another runner has the lease of the pipeline run."""


class OwnershipLost(LauncherError):
    """Another launcher has taken over the work of this launcher.

    So this launcher must no longer stop containers or write records.
    """


class ExecutionFailed(LauncherError):
    """The component was launched, and did not succeed."""


class PermanentFailure(ExecutionFailed):
    """The component has failed, and a retry would fail again. The launch record contains the failure."""


class AlreadyFailed(PermanentFailure):
    """The launch record contains a permanent failure of the same launch, so the launcher has started nothing."""


class RetryableFailure(ExecutionFailed):
    """A retry may succeed. `retry_after` is the number of seconds to wait, if a server requested a wait."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class PlatformUnavailable(RetryableFailure):
    """The platform can't be reached: its API does not respond, or responds with errors that are not permanent.

    The container that the launcher has created may still run. The next launch continues with this container.
    """


class LaunchCancelled(LauncherError):
    """`cancel()` was called, and the work was stopped."""
