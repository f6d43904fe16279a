"""Distinguishes lines of a program from the logs of TensorFlow itself. Pure."""

from __future__ import annotations

import re

_OF_TENSORFLOW = re.compile(
    # The C++ libraries: `2026-01-01 12:00:00.123456: W tensorflow/core/...`, and absl's `W0000 00:00:...`.
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] "
    r"|^[IWEF]\d{4} \d\d:\d\d:\d\d"
    # Further lines of such a message: a node of a graph, gRPC's details, or nothing but brackets.
    r"|^\[\[\{\{node "
    r"|^Additional GRPC error information"
    r"|^:?\{\"?created\"?"
)
_WORD = re.compile(r"\w")


def is_of_program(line: str) -> bool:
    """Return whether the program itself may have printed a line: it has a word, and is not of TensorFlow's C++ logs."""
    return _WORD.search(line) is not None and _OF_TENSORFLOW.search(line) is None
