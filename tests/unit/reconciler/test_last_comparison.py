from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.objects import ObjectMeta
from tfoperator.reconciler.last_comparison import longest_unrecorded, record_is_due

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
CAP = 300.0


def job(recorded: datetime | None) -> TFJob:
    """One that has not changed since it was created."""
    return TFJob(
        metadata=ObjectMeta(name="job", creation_timestamp=BEGAN), status=TFJobStatus(last_reconcile_time=recorded)
    )


def test_comparisons_of_a_quiet_job_are_recorded_ever_more_rarely_up_to_once_an_hour() -> None:
    recorded, minutes = None, []
    for minute in range(5, 300, 5):
        now = BEGAN + timedelta(minutes=minute)
        if record_is_due(job(recorded), now, CAP):
            recorded = now
            minutes.append(minute)
    assert minutes == [5, 10, 20, 40, 80, 140, 200, 260]


@pytest.mark.parametrize(("ahead", "due"), [(299, False), (300, True), (10**9, True)])
def test_a_record_of_the_future_is_mended_unless_clocks_only_differ(ahead: float, due: bool) -> None:
    now = BEGAN + timedelta(seconds=10)
    assert record_is_due(job(now + timedelta(seconds=ahead)), now, CAP) is due


def test_what_has_no_times_at_all_needs_no_record() -> None:
    assert not record_is_due(TFJob(), BEGAN, CAP)


@pytest.mark.parametrize(("quiet", "seconds"), [(-5, 300), (0, 300), (1000, 1000), (10**6, 3600)])
def test_a_record_holds_for_as_long_as_the_job_had_been_quiet(quiet: float, seconds: float) -> None:
    assert longest_unrecorded(quiet, CAP) == seconds
