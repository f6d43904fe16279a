"""The files with the stacks of the node's containers, beside their logs."""

from __future__ import annotations

import logging
import os
from pathlib import Path

logger = logging.getLogger(__name__)

STACKS_SUFFIX = ".stacks.txt"
"""The suffix that replaces a log's own for the stacks of its program: `0.log`, `0.stacks.txt`."""


def stacks_file(log: Path) -> Path:
    """Return the file for the stacks of the program that writes this log."""
    return log.with_suffix(STACKS_SUFFIX)


_NO_STACKS_PREFIX = "No stacks: "
_TIME_PREFIX = "Stacks at "


def kept_stacks(log: Path) -> tuple[str, str]:
    """Return the file with stacks of the program that writes this log, or why there are none although requested.

    One of the two is "": both, if no stacks were requested.
    """
    file, why = stacks_file(log), ""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith(_NO_STACKS_PREFIX):
                    why = line.removeprefix(_NO_STACKS_PREFIX).strip()
                elif line.strip() and not line.startswith(_TIME_PREFIX):
                    return str(file), ""
    except OSError:
        pass
    return "", why


def keep_stacks(log: Path, when: str, text: str) -> None:
    """Append stacks to their file, which only this user can read. If that fails, it is logged and they are lost."""
    try:
        descriptor = os.open(stacks_file(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(f"{_TIME_PREFIX}{when}\n{text}\n")
    except OSError as error:
        logger.warning("can't keep stacks beside %s: %s", log, error)
