"""Gauges of the reports of jobs: as many as a Prometheus bears, but none for metrics that programs name."""

from prometheus_client import CollectorRegistry, generate_latest

from tfoperator.api.v1.parts.progress import Metric, ReplicaProgress, TrainingProgress
from tfoperator.servers.progress.metrics import MAX_JOBS, ProgressMetrics

HALF = TrainingProgress(percentage=50, step=5, metrics=(Metric("<loss>", "0.5"),))


def ratios(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if line.startswith("tfoperator_job_progress_ratio{")]


def test_no_more_than_a_thousand_jobs_have_series_and_metrics_of_programs_have_none() -> None:
    registry = CollectorRegistry()
    metrics = ProgressMetrics(registry, lambda: True)
    for number in range(MAX_JOBS + 5):
        metrics.progressed("default", f"job-{number}", HALF)
        metrics.progressed("default", f"job-{number}", HALF)
    assert len(ratios(registry)) == MAX_JOBS == 1000
    assert ratios(registry)[0] == 'tfoperator_job_progress_ratio{job_name="job-0",job_namespace="default"} 0.5'
    assert "loss" not in generate_latest(registry).decode()
    # A job that has ended makes room for another.
    metrics.ended("default", "job-0")
    metrics.ended("default", "never-reported")
    assert f'job_name="job-{MAX_JOBS}"' in ratios(registry)[-1]


def test_only_the_leader_tells_of_jobs_and_counts_slow_replicas_where_there_are_any() -> None:
    registry, leads = CollectorRegistry(), [False]
    metrics = ProgressMetrics(registry, lambda: leads[0])
    metrics.progressed("default", "all-well", HALF)
    metrics.progressed("default", "slow", TrainingProgress(slow=(ReplicaProgress("worker-1", factor="2.1"),)))
    assert ratios(registry) == []
    leads[0] = True
    assert len(ratios(registry)) == 1
    shown = [line for line in generate_latest(registry).decode().splitlines() if "slow_replicas{" in line]
    assert shown == ['tfoperator_job_slow_replicas{job_name="slow",job_namespace="default"} 1.0']
