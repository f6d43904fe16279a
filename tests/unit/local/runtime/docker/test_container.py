from typing import Any

import pytest

from tfoperator.local.runtime.docker.container import container_usage, image_of
from tfoperator.local.runtime.docker.engine import ENGINE_ERRORS

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


class Engine:
    """An engine that inspects a container, or fails."""

    def __init__(self, error: BaseException | None = None) -> None:
        self._error = error

    def inspect_container(self, name: str) -> dict[str, str]:
        if self._error is not None:
            raise self._error
        return {"Id": name, "Image": "sha256:abc"}


def test_a_container_has_the_id_of_its_image_if_the_engine_responds() -> None:
    assert image_of(Engine(), "c") == "sha256:abc"
    assert image_of(Engine(ENGINE_ERRORS[0]("gone")), "c") == ""
