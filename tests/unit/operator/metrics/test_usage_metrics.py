"""Counters of what jobs' time went to: they begin with this process's lead, and never fall."""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from tfoperator.api.v1.status import JobUsage, ResourceUsage
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import ObjectMeta
from tfoperator.operator.metrics.usage_metrics import UsageMetrics

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"


class World:
    def __init__(self) -> None:
        self.now = NOON
        self.jobs: dict[str, JobUsage] | None = {}
        self.registry = CollectorRegistry()
        self.registry.register(UsageMetrics(self.read, lambda: self.now, per_job=True))

    def read(self) -> list[tuple[TFJob, JobUsage]] | None:
        if self.jobs is None:
            return None
        return [(TFJob(ObjectMeta(name, "", "team", f"uid-{name}")), usage) for name, usage in self.jobs.items()]

    def scrape(self, after: int) -> dict[tuple[str, str], float]:
        self.now = NOON + timedelta(seconds=after)
        samples = [sample for family in self.registry.collect() for sample in family.samples]
        keys = ("phase", "resource", "job_name", "job_namespace")
        return {
            (sample.name, next(sample.labels[key] for key in keys if key in sample.labels)): sample.value
            for sample in samples
        }


def training(**seconds: int) -> JobUsage:
    gpus = {GPU: ResourceUsage(2.0, 100.0, 50.0)}
    return JobUsage("training", NOON, seconds, resources=gpus, resources_since=NOON)


def test_only_what_comes_while_this_process_leads_is_counted() -> None:
    world = World()
    world.jobs = {"old": training(lost=500)}
    assert world.scrape(0) == {
        ("tfoperator_namespace_goodput_ratio", "team"): 0.0,
        ("tfoperator_job_goodput_ratio", "old"): 0.0,
    }
    world.jobs["new"] = training(queued=7)
    assert world.scrape(10) == {
        ("tfoperator_namespace_goodput_ratio", "team"): pytest.approx((10 + 10) / (510 + 17)),
        ("tfoperator_job_goodput_ratio", "old"): 0.01,
        ("tfoperator_job_goodput_ratio", "new"): 0.58,
        ("tfoperator_usage_seconds_total", "training"): 20.0,
        ("tfoperator_usage_seconds_total", "lost"): 0.0,
        ("tfoperator_usage_seconds_total", "queued"): 7.0,
        ("tfoperator_requested_resource_seconds_total", GPU): 20.0 + 120.0,
        ("tfoperator_trained_resource_seconds_total", GPU): 20.0 + 70.0,
    }
    world.jobs = None  # another leads, and counts
    assert world.scrape(100)["tfoperator_usage_seconds_total", "training"] == 20.0
    world.jobs = {"old": training(lost=500)}
    assert world.scrape(200)["tfoperator_usage_seconds_total", "training"] == 20.0
    assert world.scrape(210)["tfoperator_usage_seconds_total", "training"] == 30.0


def test_what_is_taken_back_or_gone_lets_no_counter_fall() -> None:
    world = World()
    world.scrape(0)
    world.jobs = {"a": training()}
    assert world.scrape(60)["tfoperator_usage_seconds_total", "training"] == 60.0
    world.jobs = {"a": JobUsage("training", NOON + timedelta(seconds=60), {"starting": 60}, source="Reports")}
    scraped = world.scrape(60)
    assert [scraped["tfoperator_usage_seconds_total", what] for what in ("training", "starting")] == [60.0] * 2
    world.jobs = {"a": JobUsage("", NOON, {"training": 70})}
    assert world.scrape(90)["tfoperator_usage_seconds_total", "training"] == 130.0
    world.jobs = {}
    assert ("tfoperator_job_goodput_ratio", "a") not in world.scrape(100)
    assert world.scrape(100)["tfoperator_usage_seconds_total", "training"] == 130.0


def test_a_thousand_names_of_jobs_make_one_series_of_goodput_by_default() -> None:
    jobs = [(TFJob(ObjectMeta(f"job-{n}", "", "team", f"uid-{n}")), training()) for n in range(1000)]
    jobs.append((TFJob(ObjectMeta("ended", "", "idle", "uid")), JobUsage("", NOON, {"training": 9})))
    registry = CollectorRegistry()
    registry.register(UsageMetrics(lambda: jobs, lambda: NOON + timedelta(seconds=10)))
    ratios = [s for family in registry.collect() for s in family.samples if s.name.endswith("goodput_ratio")]
    assert [(ratio.labels, ratio.value) for ratio in ratios] == [({"job_namespace": "team"}, 1.0)]
