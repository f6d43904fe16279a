from __future__ import annotations

from tests.support.fixtures import clock

__all__ = ["clock"]
