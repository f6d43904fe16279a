"""The interface of a decoder, for programs that spoil its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Decoder:
    """One decoder. `read` may raise `declared` and nothing else, whatever it is given. `weight`: how often it is tried,
    for those that cost more are tried less.
    """

    name: str
    samples: tuple[bytes, ...]
    read: Callable[[bytes], object]
    declared: tuple[type[BaseException], ...]
    weight: float = 1.0
