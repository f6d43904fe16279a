"""The verdict on an execution, from how its container ended and from its output.json. Pure but for reading that.

Another try can help after three things, as in the TFX design: a transient error of the platform's API (which never gets
here), an output.json that says so, and a container that was lost. An exit code says nothing about
whether the next try would do better.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tfoperator.launcher.core.errors import PermanentFailure, RetryableFailure
from tfoperator.launcher.core.output import OUTPUT_FILE, MalformedOutput, Output, OutputStore, parse_output


class ContainerEnd(msgspec.Struct, frozen=True):
    """How a container ended. `exit_code` is None if it is unknown; `lost`: it was deleted, evicted, or its node failed.

    `message` is for people. `output` is an output.json that did not come as a file, but as the termination message of
    a pod; with `output_cut` a part of it may be missing. `by_message`: it comes only so, if it was written.
    `image_id` is what ran, with its digest, if the platform says so.
    """

    exit_code: int | None = None
    message: str = ""
    lost: bool = False
    output: bytes | None = None
    output_cut: bool = False
    by_message: bool = False
    image_id: str = ""


def read_output(
    store: OutputStore, tmp_path: str, known_outputs: frozenset[str], end: ContainerEnd | None = None
) -> Output | MalformedOutput | None:
    """A component's output.json: the file if there is one, else what came with its container's end. Raises OSError."""
    try:
        data = store.read(tmp_path)
        if end is not None and end.by_message and not data:
            data = None  # where the kubelet mounts the message's file into a volume, it leaves an empty one in that
        if data is None and end is not None:
            if end.output_cut:
                return MalformedOutput(
                    f"{OUTPUT_FILE} came back as a termination message, which Kubernetes cuts: what was kept has "
                    f"{len(end.output or b'')} bytes, and may be a part of it. Mount a volume that the launcher "
                    "sees, too, and give its path as tmp_path (--tmp-path), or write less"
                )
            data = end.output
        return None if data is None else parse_output(data, known_outputs)
    except MalformedOutput as error:
        return error


class VerdictKind(StrEnum):
    """What follows from an execution."""

    SUCCEEDED = "succeeded"
    PERMANENT = "failed"
    RETRYABLE = "retryable"


class ExecutionVerdict(msgspec.Struct, frozen=True):
    """The outcome, in words for a user unless it is a success."""

    kind: VerdictKind
    message: str = ""

    def raise_failure(self, what: str) -> None:
        """Raise PermanentFailure or RetryableFailure unless it is a success. `what` begins the message."""
        if self.kind is VerdictKind.PERMANENT:
            raise PermanentFailure(f"{what}: {self.message}")
        if self.kind is VerdictKind.RETRYABLE:
            raise RetryableFailure(f"{what}: {self.message}")


def judge(end: ContainerEnd, output: Output | MalformedOutput | None) -> ExecutionVerdict:
    """The outcome of one execution. `output` None: there is no output.json."""
    if isinstance(output, MalformedOutput):
        if not end.lost:
            return ExecutionVerdict(VerdictKind.PERMANENT, str(output))
        output = None  # it was cut off with the container that wrote it
    if output is not None and output.error_status is not None:
        status = output.error_status
        kind = VerdictKind.RETRYABLE if status.retryable else VerdictKind.PERMANENT
        return ExecutionVerdict(kind, f"output.json says {status.code}: {status.message or 'without a message'}")
    if end.exit_code == 0:
        return ExecutionVerdict(VerdictKind.SUCCEEDED)
    if end.lost:
        # The component writes output.json when its work is done: one that names no error means success.
        if output is not None:
            return ExecutionVerdict(VerdictKind.SUCCEEDED)
        return ExecutionVerdict(
            VerdictKind.RETRYABLE, end.message or "its container was taken away before it had finished"
        )
    if end.exit_code is None:  # as of a TFJob, whose message has its replicas' codes
        return ExecutionVerdict(VerdictKind.PERMANENT, end.message or "its exit code is unknown")
    said = f"exit code {end.exit_code}"
    return ExecutionVerdict(VerdictKind.PERMANENT, f"{said}: {end.message}" if end.message else said)
