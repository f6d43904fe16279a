"""The result of a command that prints the stacks of the Python threads in a pod's container. The module does no I/O.

The command is a part of the users' library (`tfoperator.progress.stacks`). The command sends a signal to the programs
that have registered for it, and prints their output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tfoperator.kube.protocol.errors import ApiError, ForbiddenError, KubeError

if TYPE_CHECKING:
    from tfoperator.kube.http.sending.exec import Executed

STACKS_COMMAND = ("python3", "-m", "tfoperator.progress.stacks")
"""The command for the container in which the training runs."""

_NO_STACKS = "No stacks: "
_NO_MODULE = "No module named"
_NO_LIBRARY = (
    "its image has no tfoperator.progress, which prints a program's stacks on request: add the package tfoperator to "
    "the image"
)


class PodStacks(msgspec.Struct, frozen=True):
    """The stacks of a pod's threads, or a sentence with the reason why there are none."""

    text: str = ""
    problem: str = ""


def stacks_printed(ran: Executed) -> PodStacks:
    """Return the stacks in the output of STACKS_COMMAND, or the reason why there are none."""
    if ran.exit_code and _NO_MODULE in ran.errors:
        return PodStacks(problem=_NO_LIBRARY)
    return stacks_told(ran.output, failed=bool(ran.exit_code), errors=ran.errors)


def stacks_told(text: str, *, failed: bool = False, errors: str = "") -> PodStacks:
    """Return the stacks in `text`, or the reason that follows `No stacks: ` there.

    `text` is the output of a command or of a node agent. If the command failed, the reason is the last line of its
    standard error `errors`.
    """
    if not failed and not text.startswith(_NO_STACKS):
        return PodStacks(text)
    lines = (errors or text).strip().removeprefix(_NO_STACKS).splitlines()
    return PodStacks(problem=lines[-1] if lines else "its program did not answer")


def stacks_refused(error: KubeError, who: str) -> PodStacks:
    """Return the reason why there are no stacks: the attempt to run STACKS_COMMAND in the container raised `error`.

    `who` is the user who sent the request, as the subject of a sentence: "you", for example.
    """
    if isinstance(error, ForbiddenError):
        return PodStacks(problem=f"{who} may not run commands in the job's pods (pods/exec): {error.status.message}")
    message = error.status.message if isinstance(error, ApiError) else ""
    return PodStacks(problem=f"a command can't be run in its container: {message or error}")
