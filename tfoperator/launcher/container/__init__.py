"""The life of a container's attempts, on any platform.

A container is rendered from its component, created once per attempt, and found again by the next launcher; its
log is forwarded, and its remains are removed. `ContainerComponentLauncher` does that; a platform implements
`Backend`, for which it gets a `Launch`, with all data for a backend.
"""

from tfoperator.launcher.container.backend import (
    LAUNCH_LABEL,
    Backend,
    Launch,
    LogForwarder,
    Mailbox,
    NeverStarted,
    object_name,
)
from tfoperator.launcher.container.launcher import ContainerComponentLauncher
from tfoperator.launcher.container.templates import Bindings, render_container, rendered_value

__all__ = [
    "LAUNCH_LABEL",
    "Backend",
    "Bindings",
    "ContainerComponentLauncher",
    "Launch",
    "LogForwarder",
    "Mailbox",
    "NeverStarted",
    "object_name",
    "render_container",
    "rendered_value",
]
