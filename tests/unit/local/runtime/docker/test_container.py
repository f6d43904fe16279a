from typing import Any

import pytest

from tfoperator.local.runtime.docker.container import container_usage

CPU = {"cpu_usage": {"total_usage": 2_500_000_000}}


@pytest.mark.parametrize(
    ("memory", "used"),
    [
        ({"usage": 1000, "stats": {"inactive_file": 300}}, 700),  # control groups of version 2
        ({"usage": 1000, "stats": {"total_inactive_file": 400, "cache": 900}}, 600),  # and 1
        ({"usage": 1000}, 1000),
        ({"usage": 100, "stats": {"inactive_file": 300}}, 0),
    ],
)
def test_cache_that_can_be_dropped_is_not_counted(memory: dict[str, Any], used: int) -> None:
    assert container_usage({"cpu_stats": CPU, "memory_stats": memory}) == (2.5, used)


@pytest.mark.parametrize("stats", [{}, {"cpu_stats": CPU, "memory_stats": {}}, {"memory_stats": None}])
def test_a_container_that_has_ended_uses_nothing(stats: dict[str, Any]) -> None:
    assert container_usage(stats) is None
