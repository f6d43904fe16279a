"""All decoders of bytes from a network or a file, with samples of their input and their declared errors.

`hack/fuzz_decoders.py` damages the samples. It also tests a new decoder as soon as `decoders()` contains the decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.decoders.client import client_decoders
from hack.decoders.decoder import Decoder
from hack.decoders.files import file_decoders
from hack.decoders.server import server_decoders

__all__ = ["Decoder", "decoders"]


@contextmanager
def decoders(folder: Path) -> Iterator[list[Decoder]]:
    """Yield all decoders, always in the same order. The decoders of files write into `folder` what they read."""
    with client_decoders() as received:
        yield [*received, *file_decoders(folder), *server_decoders()]
