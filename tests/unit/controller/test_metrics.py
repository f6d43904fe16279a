"""The metrics of syncs under the names of controller-runtime."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from tests.support.controller_harness import Harness
from tests.support.fake_api import Call, api_error
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller import ControllerMetrics

PREFIX = "controller_runtime_"
OF = {"controller": "tfjobs"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def harness(registry: CollectorRegistry) -> Iterator[Harness]:
    with Harness(metrics=ControllerMetrics(registry)) as harness:
        yield harness


def results(registry: CollectorRegistry) -> dict[str, float]:
    """How often each result came."""
    (family,) = (family for family in registry.collect() if family.name == f"{PREFIX}reconcile")
    samples = [sample for sample in family.samples if sample.name.endswith("_total")]
    assert all(sample.labels["controller"] == "tfjobs" for sample in samples)
    return {sample.labels["result"]: sample.value for sample in samples}


def test_each_result_has_a_sample_before_its_first_sync(harness: Harness, registry: CollectorRegistry) -> None:
    assert results(registry) == {"success": 0, "error": 0, "requeue": 0, "requeue_after": 0}
    assert registry.get_sample_value(f"{PREFIX}reconcile_errors_total", OF) == 0
    assert (
        registry.get_sample_value(f"{PREFIX}max_concurrent_reconciles", OF) == harness.controller._options.threadiness
    )


def test_a_sync_counts_with_its_result_and_its_time(harness: Harness, registry: CollectorRegistry) -> None:
    active: list[float | None] = []

    def look(call: Call) -> None:
        if (call.verb, call.resource) == ("create", "pods"):
            active.append(registry.get_sample_value(f"{PREFIX}active_workers", OF))

    harness.submit(Worker=1)
    harness.api.react(look)
    harness.controller._process("ns/job")
    assert active == [1]
    assert registry.get_sample_value(f"{PREFIX}active_workers", OF) == 0
    assert registry.get_sample_value(f"{PREFIX}reconcile_time_seconds_count", OF) == 1
    assert sum(results(registry).values()) == 1
    assert results(registry)["error"] == 0
    harness.api.remove(TFJOBS, "ns", "job")
    harness.catch_up()
    before = results(registry)["success"]
    harness.controller._process("ns/job")
    assert results(registry)["success"] == before + 1


def test_a_sync_that_fails_counts_as_an_error(harness: Harness, registry: CollectorRegistry) -> None:
    harness.submit(Worker=1)
    harness.api.fail("create", "pods", api_error(500), times=1)
    harness.controller._process("ns/job")
    assert results(registry)["error"] == 1
    assert registry.get_sample_value(f"{PREFIX}reconcile_errors_total", OF) == 1
    harness.controller.sync_tfjob = lambda key: 1 / 0  # a bug
    harness.controller._process("ns/job")
    assert results(registry)["error"] == 2
    assert registry.get_sample_value(f"{PREFIX}active_workers", OF) == 0
