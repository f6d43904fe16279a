"""One container's log as a file, and its last lines.

The process writes directly to the file. So it loses no lines if the agent dies, and the agent can't slow it down.
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
    """One attempt's log. Thread-safe.

    Once `closed`, `exit_code` is the container's exit code, None if it never ran to an end; `reason` is its runtime's
    reason (OOMKilled); `ended` is the time. `stopped` is true if it was asked to end: then its exit code is no evidence
    about its work. `owner` is the UID of the pod. For a process, `pid` is set while it runs, and at its end
    `peak_memory`, the most memory (bytes) that it has used, if that is more than this process has. `stacks` is the file
    with stacks of its program, and `no_stacks` is the reason if stacks were requested and could not be taken.
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
        """The number of the attempt, from 0."""
        return int(self.path.stem)

    @property
    def closed(self) -> bool:
        """Whether the container has ended, so that nothing more will be written."""
        return self._closed.is_set()

    def close(
        self,
        exit_code: int | None = None,
        *,
        stopped: bool = False,
        reason: str = "",
        ended: datetime | None = None,
    ) -> None:
        """Mark the log as complete, for its followers. Only the first call has an effect."""
        if not self._closed.is_set():
            self.exit_code, self.stopped, self.reason, self.ended = exit_code, stopped, reason, ended
            self._closed.set()

    def append(self, line: str, end: str = "\n") -> None:
        """Write a line of the agent: why the container did not start, for example."""
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(line + end)

    def keep_stacks(self, when: str, text: str) -> None:
        """Append stacks to a file beside the log, which only this user can read. A failure is logged; they are lost."""
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

    It is for only the last `tail_lines` lines, and only for lines written at or after `since`. With `timestamps`, each
    line begins with its time (RFC 3339). The HTTP server applies `limit_bytes`. None means no limit, or the beginning.
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
    """Return the last lines of a log, as a terminal shows them, without line ends; undecodable bytes are replaced.

    Empty if there is no file.

    With `max_bytes`, at most that many bytes are read, so the first line may lack its beginning.
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
