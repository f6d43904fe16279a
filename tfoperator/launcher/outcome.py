"""What became of an execution: a pure judgement over how the container ended and what it said about itself.

Only three things are worth another try, as the TFX design has it: a transient error of the platform's API (which
never gets here), an output.json that says so, and a container that was taken away. An exit code says nothing about
whether the next try would do better.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tfoperator.launcher.output import MalformedOutput, Output

__all__ = ["ContainerEnd", "Verdict", "VerdictKind", "judge"]


class ContainerEnd(msgspec.Struct, frozen=True):
    """How a container ended. `exit_code` is None if nobody knows; `lost` says that it was taken away.

    `message` is for people. `output` is an output.json that came on another way than as a file, as the termination
    message of a pod. `image_id` is what ran, with its digest, if the platform says so.
    """

    exit_code: int | None = None
    message: str = ""
    lost: bool = False
    output: bytes | None = None
    image_id: str = ""


class VerdictKind(StrEnum):
    """What follows from it."""

    SUCCEEDED = "succeeded"
    PERMANENT = "failed"
    RETRYABLE = "retryable"


class Verdict(msgspec.Struct, frozen=True):
    """The outcome, in words for a user unless it is a success."""

    kind: VerdictKind
    message: str = ""


def judge(end: ContainerEnd, output: Output | MalformedOutput | None) -> Verdict:
    """The outcome of one execution. `output` None: there is no output.json."""
    if isinstance(output, MalformedOutput):
        if not end.lost:
            return Verdict(VerdictKind.PERMANENT, str(output))
        output = None  # it was cut off with the container that wrote it
    if output is not None and output.error_status is not None:
        status = output.error_status
        kind = VerdictKind.RETRYABLE if status.retryable else VerdictKind.PERMANENT
        return Verdict(kind, f"output.json says {status.code}: {status.message or 'without a message'}")
    if end.exit_code == 0:
        return Verdict(VerdictKind.SUCCEEDED)
    if end.lost:
        # The component writes output.json when it is done: one that is there and names no error is its word for that.
        if output is not None:
            return Verdict(VerdictKind.SUCCEEDED)
        return Verdict(VerdictKind.RETRYABLE, end.message or "its container was taken away before it had finished")
    if end.exit_code is None:  # as of a job, whose words have its replicas' codes
        return Verdict(VerdictKind.PERMANENT, end.message or "its exit code is unknown")
    said = f"exit code {end.exit_code}"
    return Verdict(VerdictKind.PERMANENT, f"{said}: {end.message}" if end.message else said)
