"""What a pod answers that is asked for the stacks of its Python threads, by a command in its container. Pure.

The command is the users' library (`tfoperator.progress.stacks`): it sends a signal to the programs that have registered
for it, and prints what they wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tfoperator.kube.errors import ApiError, ForbiddenError, KubeError

if TYPE_CHECKING:
    from tfoperator.kube.http.exec import Executed

STACKS_COMMAND = ("python3", "-m", "tfoperator.progress.stacks")
"""To be run in the container that trains."""

_NO_STACKS = "No stacks: "
_MISSING = "No module named"
_NO_LIBRARY = (
    "its image has no tfoperator.progress, by which a program can be asked for its stacks: "
    "add the package tfoperator to it"
)


class PodStacks(msgspec.Struct, frozen=True):
    """The stacks of a pod's threads, or in one sentence why there are none."""

    text: str = ""
    problem: str = ""


def stacks_printed(ran: Executed) -> PodStacks:
    """What the command has found."""
    if ran.exit_code and _MISSING in ran.errors:
        return PodStacks(problem=_NO_LIBRARY)
    return stacks_told(ran.output, failed=bool(ran.exit_code), errors=ran.errors)


def stacks_told(text: str, *, failed: bool = False, errors: str = "") -> PodStacks:
    """What somebody says who was asked for stacks: them, or a sentence that begins with `No stacks: `."""
    if not failed and not text.startswith(_NO_STACKS):
        return PodStacks(text)
    lines = (errors or text).strip().removeprefix(_NO_STACKS).splitlines()
    return PodStacks(problem=lines[-1] if lines else "it has given no answer")


def stacks_refused(error: KubeError, who: str) -> PodStacks:
    """What it means that the command was not run for `who` ("you")."""
    if isinstance(error, ForbiddenError):
        return PodStacks(problem=f"{who} may not run a command in its pod (pods/exec): {error.status.message}")
    said = error.status.message if isinstance(error, ApiError) else ""
    return PodStacks(problem=f"its container can't be asked: {said or error}")
