"""Converts the lines of a log to plain text, and recognizes the log lines of TensorFlow's C++ libraries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfoperator.base.controlchars import plain_text

_OF_TENSORFLOW = re.compile(
    # The C++ libraries: `2026-01-01 12:00:00.123456: W tensorflow/core/...`, and absl's `W0000 00:00:...`.
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] "
    r"|^[IWEF]\d{4} \d\d:\d\d:\d\d"
    # Two lines that TensorFlow prints at its start.
    r"|^WARNING: All log messages before absl::InitializeLog"
    r"|^To enable the following instructions: "
    # Further lines of a message of the C++ libraries: a node of a graph, gRPC's details, or only brackets.
    r"|^\[\[\{\{node "
    r"|^Additional GRPC error information"
    r"|^:?\{\"?created\"?"
)
_WORD = re.compile(r"\w")


def is_of_program(line: str) -> bool:
    """Return whether the user's program may have printed a line: it contains a letter or digit, and is not a log line
    of TensorFlow's C++ libraries.
    """
    return _WORD.search(line) is not None and _OF_TENSORFLOW.search(line) is None


def plain_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines of a log without colours and without other control sequences for a terminal."""
    return tuple(map(plain_text, lines))
