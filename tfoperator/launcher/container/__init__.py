"""The life of a container's attempts, on any platform.

How is a container rendered from its component, created once per attempt and found again by the next launcher? What
becomes of its log, and what is removed at the end? `ContainerComponentLauncher` does that; a platform implements
`Backend`, for which it gets a `Launch`: a value with all that a backend needs to know.
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
