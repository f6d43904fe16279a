"""The memory of jobs, and its bounds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tfoperator.api.v1.parts.progress import Metric, TrainingProgress
from tfoperator.report.curves import MAX_CURVES, MAX_POINTS
from tfoperator.ui.jobs.history import MAX_JOBS, History

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def history() -> History:
    return History()


def report(at: int, **metrics: str) -> TrainingProgress:
    listed = tuple(Metric(name, value) for name, value in metrics.items())
    return TrainingProgress(percentage=5, last_updated_time=NOW + timedelta(seconds=at), metrics=listed)


def test_each_report_is_a_point_of_each_metrics_curve_and_the_same_again_is_none(history: History) -> None:
    history.saw_progress("u", report(1, loss="2.5", accuracy="0.1"), NOW)
    for _ in range(3):
        history.saw_progress("u", report(3, loss="1.5"), NOW)
    curves = history.metrics("u")
    assert [point.value for point in curves["loss"]] == [2.5, 1.5]
    assert curves["loss"][1].time - curves["loss"][0].time == 2
    assert [point.value for point in curves["accuracy"]] == [0.1]


def spoken(replica: str, at: int, step: int, loss: str, *, news: int = 0) -> TrainingProgress:
    """A status in which a replica speaks that has reported `at` seconds after noon; another one `news` after it."""
    return replace(report(at + news, loss=loss), replica=replica, report_time=NOW + timedelta(seconds=at), step=step)


def test_curves_of_several_replicas_don_t_mix_and_news_of_another_is_no_point(history: History) -> None:
    for news in range(5):
        history.saw_progress("one", spoken("worker-0", 1, 10, "2.5", news=news), NOW)
    assert len(history.metrics("one")["loss"]) == 1
    for step in range(4):
        history.saw_progress("u", spoken(f"worker-{step % 2}", step, 10 * step, str(step)), NOW)
    curves = {name: [(point.step, point.value) for point in points] for name, points in history.metrics("u").items()}
    assert curves == {"loss": [(0, 0), (20, 2)], "loss (worker-1)": [(10, 1), (30, 3)]}


@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        ([(10, 5), (20, 4), (30, 3), (20, 4.5), (40, 2)], [(10, 5), (20, 4.5), (40, 2)]),
        ([*zip(range(7), (2, 2, 2, 2, 1, 1, 1), strict=True)], [(0, 2), (3, 2), (4, 1), (6, 1)]),
    ],
    ids=[
        "who goes on from a checkpoint replaces the steps that it does again",
        "of a value that stays two points stay",
    ],
)
def test_a_curve_is_of_what_counts(history: History, reported: list[Any], kept: list[Any]) -> None:
    for at, (step, loss) in enumerate(reported):
        history.saw_progress("u", spoken("worker-0", at, step, str(loss)), NOW)
    assert [(point.step, point.value) for point in history.metrics("u")["loss"]] == kept


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "high", "", "1e999"])
def test_what_is_no_number_is_no_point(history: History, value: str) -> None:
    history.saw_progress("u", report(1, loss=value), NOW)
    assert history.metrics("u") == {}


def test_a_curve_keeps_its_whole_length_in_bounded_points_and_metrics_and_jobs_are_bounded(history: History) -> None:
    for number in range(MAX_POINTS * 3):
        history.saw_progress("u", report(number % 3600, loss=str(number)), NOW)
    values = [point.value for point in history.metrics("u")["loss"]]
    assert len(values) <= MAX_POINTS
    assert values[0] == 0
    assert values[-1] == MAX_POINTS * 3 - 1
    assert values == sorted(values)
    history.saw_progress("first", report(1, **{f"m{i}": "1" for i in range(MAX_CURVES * 2)}), NOW)
    assert len(history.metrics("first")) == MAX_CURVES
    for number in range(MAX_JOBS):
        history.saw_progress(f"u{number}", report(1, loss="1"), NOW)
    assert history.metrics("first") == {}
