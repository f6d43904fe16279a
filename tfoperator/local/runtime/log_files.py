"""The log of one container as a file, and a function that reads the last lines of a log.

The container's process writes directly to the file. So the log loses no lines if the agent dies, and the agent can't
slow the process down.
"""

from __future__ import annotations

import logging
import os
import threading
from datetime import datetime
from pathlib import Path

import msgspec

from tfoperator.base.controlchars import shown_lines
from tfoperator.base.files import tail_offset
from tfoperator.base.private_files import private_opener

logger = logging.getLogger(__name__)

_NO_STACKS_PREFIX = "No stacks: "


class LogFile:
    """The log of one attempt of a container. Thread-safe.

    When the log is `closed`, the container has ended:

    - `exit_code` is the container's exit code. It is None if the container did not run to an end.
    - `reason` is the runtime's reason for the end, for example OOMKilled. `ended` is the time of the end.
    - `stopped` is true if the container was stopped on request. Then `exit_code` does not show whether its work
      succeeded.
    - `peak_memory` is the most memory in bytes that the container has used. It is None if the peak isn't known.

    `owner` is the UID of the pod. If the container runs as a process, `pid` is the ID of its first process. `stacks` is
    the path of the file with the stacks of the program's threads. `no_stacks` is the reason if stacks were requested
    but could not be taken.
    """

    def __init__(self, path: Path, owner: str = "") -> None:
        self.path = path
        self.owner = owner
        self.exit_code: int | None = None
        self.reason = ""
        self.ended: datetime | None = None
        self.stopped = False
        self.pid: int | None = None
        self.peak_memory: int | None = None
        self.stacks = ""
        self.no_stacks = ""
        self._closed = threading.Event()

    @property
    def attempt(self) -> int:
        """The number of the attempt. The first attempt has the number 0."""
        return int(self.path.stem)

    @property
    def closed(self) -> bool:
        """Whether the container has ended. After that, nothing more is written to the log."""
        return self._closed.is_set()

    def close(
        self,
        exit_code: int | None = None,
        *,
        stopped: bool = False,
        reason: str = "",
        ended: datetime | None = None,
    ) -> None:
        """Mark the log as complete. Readers that follow the log then stop. Only the first call has an effect."""
        if not self._closed.is_set():
            self.exit_code, self.stopped, self.reason, self.ended = exit_code, stopped, reason, ended
            self._closed.set()

    def append(self, line: str, end: str = "\n") -> None:
        """Write a line of the agent to the log: why the container did not start, for example."""
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + end)

    def keep_stacks(self, when: str, text: str) -> None:
        """Append stacks to a file in the folder of the log. Only this user can read the file.

        If that fails, the failure is logged, and the stacks are lost.
        """
        file = self.path.with_suffix(".stacks.txt")
        try:
            with open(file, "a", encoding="utf-8", opener=private_opener) as stream:
                stream.write(f"Stacks at {when}\n{text}\n")
        except OSError as error:
            logger.warning("can't keep the stacks in the folder of %s: %s", self.path, error)
            return
        if text.startswith(_NO_STACKS_PREFIX):
            self.no_stacks = "" if self.stacks else text.removeprefix(_NO_STACKS_PREFIX).strip()
        elif text.strip():
            self.stacks, self.no_stacks = str(file), ""


class LogRequest(msgspec.Struct, frozen=True):
    """A request for the log of a container's latest attempt, or of the attempt before (`previous`).

    The request is for only the last `tail_lines` lines, and only for lines written at or after `since`. With
    `timestamps`, each line begins with its time (RFC 3339). With `follow`, the response also contains the lines that
    are written from now on, until the container ends. `limit_bytes` is applied by the HTTP server. `tail_lines` and
    `limit_bytes` of None mean no limit; `since` of None means the beginning of the log.
    """

    namespace: str
    pod: str
    container: str
    previous: bool = False
    follow: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None
    timestamps: bool = False


def last_lines(path: Path, count: int, max_bytes: int | None = None) -> list[str]:
    """Return the last lines of a log without line ends, as a terminal shows them. Undecodable bytes are replaced.

    Returns an empty list if the file does not exist.

    With `max_bytes`, the function reads at most that many bytes. So the first line may lack its beginning.
    """
    try:
        with path.open("rb") as stream:
            start = tail_offset(stream, count)
            if max_bytes is not None:
                start = max(start, stream.seek(0, os.SEEK_END) - max_bytes)
            stream.seek(start)
            text = stream.read(-1 if max_bytes is None else max_bytes).decode(errors="replace")
    except OSError:
        return []
    lines = shown_lines(text)
    return lines[max(0, len(lines) - count) :]
