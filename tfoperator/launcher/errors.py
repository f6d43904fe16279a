"""How a launch fails: bad input before anything exists, a failure that will repeat itself, or one worth another try.

`ComponentError` is raised before anything is created. `PermanentFailure` and `RetryableFailure` are what became of an
execution; the command line ends with 1 and 75 for them. Messages name the component and say what to do next.
"""

from __future__ import annotations

__all__ = [
    "AlreadyFailed",
    "ComponentError",
    "ExecutionFailed",
    "LaunchCancelled",
    "LaunchInProgress",
    "LauncherError",
    "NoLauncherError",
    "PermanentFailure",
    "PlatformConfigError",
    "PlatformUnavailable",
    "RetryableFailure",
    "TemplateError",
    "WorkDirectoryError",
]


class LauncherError(Exception):
    """Root of all errors of `tfoperator.launcher`."""


class ComponentError(LauncherError):
    """What was asked for makes no sense; nothing was created."""


class TemplateError(ComponentError):
    """Placeholders that are no placeholders, or that name something that isn't there. `problems` has one line each."""

    def __init__(self, component: str, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join([f"component {component}: its container can't be rendered:", *problems]))


class PlatformConfigError(ComponentError):
    """A platform config that is malformed, or that can't be merged with another."""


class NoLauncherError(ComponentError):
    """No launcher accepts the component, or one of its platform configs."""


class WorkDirectoryError(ComponentError):
    """The working directory can't be used, or holds the record of something else."""


class LaunchInProgress(WorkDirectoryError):
    """Another launcher is at work in this directory right now."""


class ExecutionFailed(LauncherError):
    """The component was launched, and did not succeed."""


class PermanentFailure(ExecutionFailed):
    """It would fail again: it is not repeated, and the working directory remembers."""


class AlreadyFailed(PermanentFailure):
    """The working directory records a permanent failure of this very launch; nothing was launched."""


class RetryableFailure(ExecutionFailed):
    """It may succeed another time. `retry_after` is what a server asked for, in seconds."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class PlatformUnavailable(RetryableFailure):
    """The platform's API did not answer for too long. What was created goes on; launching again takes it up."""


class LaunchCancelled(LauncherError):
    """`cancel()` was called; what ran was stopped."""
