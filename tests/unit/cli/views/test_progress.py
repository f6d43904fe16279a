from datetime import UTC, datetime, timedelta

import pytest

from tfoperator.api.v1.parts.progress import Metric, ReplicaProgress, TrainingProgress
from tfoperator.cli.views.progress import behind_text, progress_text, slow_text

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
FULL = TrainingProgress(
    completion="43%",
    percentage=43,
    step=430,
    total_steps=1000,
    estimated_remaining_seconds=200,
    metrics=(Metric("accuracy", "0.91234567"), Metric("loss", "0.2345678"), Metric("a", "1"), Metric("b", "2")),
    report_time=NOW,
)


@pytest.mark.parametrize(("seconds", "left"), [(-5, "3m20s"), (0, "3m20s"), (100, "100s"), (300, "0s")])
def test_the_loss_comes_first_and_the_time_left_goes_on_between_reports(seconds: float, left: str) -> None:
    text = progress_text(FULL, NOW + timedelta(seconds=seconds))
    assert text == f"43%, step 430 of 1000, {left} left, loss 0.2346, accuracy 0.9123, a 1"


def test_replicas_behind_the_first_are_named() -> None:
    late = ReplicaProgress("worker-3", 400, NOW - timedelta(seconds=150))
    even = ReplicaProgress("worker-1", 430, NOW)
    for behind, text in (((late, even), "worker-3 at step 400 (2m30s ago)"), ((even,), "")):
        assert behind_text(TrainingProgress(step=430, behind=behind), NOW) == text
    assert behind_text(TrainingProgress(step=430, percentage=100, behind=(late, even)), NOW) == "", "all is done"


def test_slow_replicas_have_their_factor() -> None:
    slow = (ReplicaProgress("worker-1", 40, NOW, "2.1"), ReplicaProgress("worker-2", 41, NOW, "1.7"))
    text = slow_text(TrainingProgress(slow=slow))
    assert (
        text
        == "worker-1 (each step takes 2.1 times the usual duration), worker-2 (each step takes 1.7 times the usual "
        "duration)"
    )
    assert slow_text(TrainingProgress()) == ""
