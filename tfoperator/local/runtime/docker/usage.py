"""What a container uses, read out of the engine's answer to `GET /containers/{id}/stats`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NANOSECONDS = 1e9

_INACTIVE_FILE = ("inactive_file", "total_inactive_file")
"""Page cache that can be dropped at once, by its name in control groups of version 2 and 1. `docker stats` and
kubelets don't count it either."""


def container_usage(stats: Mapping[str, Any]) -> tuple[float, int] | None:
    """(CPU time in seconds since its start, memory in bytes); None for a container that runs no more.

    An engine answers for such a container, too, but with nothing in it.
    """
    cpu, memory = stats.get("cpu_stats") or {}, stats.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    inactive = next((details[name] for name in _INACTIVE_FILE if name in details), 0)
    spent = (cpu.get("cpu_usage") or {}).get("total_usage", 0)
    return float(spent) / _NANOSECONDS, max(0, int(memory["usage"]) - int(inactive))
