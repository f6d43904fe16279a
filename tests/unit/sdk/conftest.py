from __future__ import annotations

from tests.support.served import served, world

__all__ = ["served", "world"]
