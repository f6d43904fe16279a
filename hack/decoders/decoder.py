"""The interface of a decoder, for programs that spoil its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Decoder:
    """One decoder. `read` may raise only `declared`, whatever its input is. `weight` is how often it is tried: decoders
    that take more time are tried less often.
    """

    name: str
    samples: tuple[bytes, ...]
    read: Callable[[bytes], object]
    declared: tuple[type[BaseException], ...]
    weight: float = 1.0
