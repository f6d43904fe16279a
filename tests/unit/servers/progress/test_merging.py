from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.servers.progress.samples import NOW, job, report
from tfoperator.api.fields.limits import MAX_BEHIND, MAX_SHOWN_METRICS
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.progress import ReplicaProgress, TrainingProgress
from tfoperator.api.v1.status import JobCondition, ReplicaStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.servers.progress.merging import merged, overlaid
from tfoperator.servers.progress.reports import Pace, ProgressReport


def progress_of(of: TFJob, *reports: ProgressReport) -> TrainingProgress:
    progress = merged(of, {received.replica: received for received in reports})
    assert progress is not None
    return progress


def behind(progress: TrainingProgress) -> list[tuple[str, int | None]]:
    return [(replica.name, replica.step) for replica in progress.behind]


def test_nothing_reported_leaves_what_is_said_and_a_report_after_the_end_says_no_time_left() -> None:
    assert merged(job(), {}) is None
    progress = progress_of(job(), report(percentage=5))
    assert merged(job(progress), {}) is progress
    end = JobCondition(type=ConditionType.FAILED, status="True")
    ended = job()
    ended = msgspec.structs.replace(ended, status=msgspec.structs.replace(ended.status, conditions=(end,)))
    at_end = progress_of(ended, report(percentage=25, estimated_remaining_seconds=200))
    assert (at_end.percentage, at_end.eta, at_end.estimated_remaining_seconds) == (25, "", None)


def test_a_report_is_said_in_numbers_and_for_people() -> None:
    progress = progress_of(
        job(), report(percentage=43, estimated_remaining_seconds=200, step=430, metrics={"loss": "0.2"})
    )
    assert (progress.percentage, progress.completion, progress.eta) == (43, "43%", "3m20s")
    assert (progress.step, progress.replica, progress.report_time, progress.last_updated_time) == (
        430,
        "worker-0",
        NOW,
        NOW,
    )
    assert progress.behind == ()
    # Percent follow from the steps where they are not said.
    assert progress_of(job(), report(step=1, total_steps=3)).percentage == 33
    assert progress_of(job(), report(step=9, total_steps=3)).percentage == 100
    assert progress_of(job(), report(step=9)).completion == ""


def test_the_chief_speaks_for_its_job_then_the_first_worker_and_nobody_who_has_been_silent_for_a_minute() -> None:
    both = report("worker-0", percentage=50), report("chief-0", percentage=10)
    assert progress_of(job(Chief=1, Worker=2), *both).replica == "chief-0"
    assert progress_of(job(), report("worker-10", percentage=1), report("worker-2", percentage=2)).replica == "worker-2"
    first = report("worker-0", percentage=10)
    assert progress_of(job(), first, report("worker-1", after=60, percentage=30)).replica == "worker-0"
    later = progress_of(job(), first, report("worker-1", after=61, percentage=30))
    assert (later.replica, later.percentage) == ("worker-1", 30)
    again = progress_of(job(later), report("worker-0", after=70, percentage=11))
    assert (again.replica, again.percentage) == ("worker-0", 11)
    mine = {"worker-0": report("worker-0", 0, percentage=1)}
    theirs = {"worker-1": report("worker-1", 1, percentage=2), "worker-2": report("worker-2", after=61, percentage=3)}
    progress = merged(job(merged(job(), mine)), theirs)
    assert progress is not None
    assert progress.replica == "worker-1"
    assert merged(job(progress), mine) == progress


def test_what_a_report_does_not_speak_of_stays_but_an_old_estimate_and_metrics_that_are_too_many_do_not() -> None:
    before = report(percentage=10, estimated_remaining_seconds=90, step=5, total_steps=50, metrics={"loss": "1"})
    only_metrics = overlaid(before, report(after=5, metrics={"accuracy": "0.5"}))
    assert (only_metrics.percentage, only_metrics.estimated_remaining_seconds) == (10, 90)
    assert {metric.name for metric in only_metrics.metrics} == {"loss", "accuracy"}
    done = overlaid(before, report(after=5, percentage=100))
    assert (done.step, done.total_steps, done.estimated_remaining_seconds) == (5, 50, None)
    many = overlaid(None, report(metrics={f"old{i}": "1" for i in range(100)}))
    assert len(many.metrics) == MAX_SHOWN_METRICS
    assert overlaid(many, report(metrics={"new": "1"})).metrics[0].name == "new"


def test_of_what_another_process_has_written_nothing_is_forgotten_or_taken_back_by_an_older_report() -> None:
    before = progress_of(job(), report(after=10, percentage=80, step=800, total_steps=1000, metrics={"loss": "1"}))
    progress = progress_of(job(before), report(after=15, metrics={"accuracy": "0.9"}))
    assert (progress.percentage, progress.step, progress.total_steps) == (80, 800, 1000)
    assert {metric.name for metric in progress.metrics} == {"loss", "accuracy"}
    assert progress_of(job(before), report(after=5, percentage=10, step=100)) == before
    assert progress_of(job(before), report(after=30, percentage=5, step=50)).percentage == 5, (
        "training that starts again"
    )


def test_those_furthest_behind_are_named_first_then_the_longest_silent_and_none_that_ended_or_was_scaled_away() -> None:
    reports = [report(f"worker-{i}", after=i, step=100 - i) for i in range(20)]
    progress = progress_of(job(Worker=20), *reports)
    assert behind(progress) == [(f"worker-{i}", 100 - i) for i in range(19, 19 - MAX_BEHIND, -1)]
    assert progress.last_updated_time == reports[-1].time
    progress = progress_of(job(), report("worker-0", after=9, step=5), report("worker-1", after=2, step=5))
    assert behind(progress) == [("worker-1", 5), ("worker-0", 5)]
    reports = [report(f"worker-{i}", step=i) for i in range(6)]
    scaled_job = job(Worker=4)
    status = msgspec.structs.replace(
        scaled_job.status, replica_statuses={"Worker": ReplicaStatus(completed_indexes="0-1")}
    )
    progress = progress_of(msgspec.structs.replace(scaled_job, status=status), *reports)
    assert behind(progress) == [("worker-2", 2), ("worker-3", 3)]


def slow(of: TFJob, after: float, *factors: float) -> TrainingProgress:
    """The progress as one process sees it whose reports came then."""
    paces = [Pace("", 400, 40.0, tuple((turn * 5.0, 5.0 * factor, 50) for turn in range(8))) for factor in factors]
    return progress_of(of, *[report(f"worker-{index}", after, step=400, pace=pace) for index, pace in enumerate(paces)])


def test_who_is_slow_is_said_with_the_factor_but_only_so_many_and_none_that_trains_no_more() -> None:
    progress = slow(job(), 0, 1, 2.14, 1)
    assert progress.slow == (ReplicaProgress("worker-1", 400, NOW, "2.1"),)
    assert slow(job(progress), 5, 1, 1, 1).slow == ()
    progress = slow(job(Worker=40), 0, *[1.0] * 25, *[2.0] * 15)
    assert [replica.name for replica in progress.slow] == [f"worker-{index}" for index in range(25, 25 + MAX_BEHIND)]
    assert slow(job(progress, Worker=27), 0, *[1.0] * 25, *[2.0] * 15).slow == progress.slow[:2]


def test_of_two_processes_the_newer_report_counts_and_one_that_knows_nothing_yet_takes_nothing_back() -> None:
    progress = slow(job(), 10, 1, 2, 1)
    assert slow(job(progress), 5, 1, 1, 1).slow == progress.slow
    other = ReplicaProgress("worker-2", 400, NOW + timedelta(seconds=5), "2.0")
    assert slow(job(progress), 5, 1, 1, 2).slow == (*progress.slow, other)
    assert progress_of(job(progress), report("worker-1", after=20, step=1)).slow == progress.slow
    assert slow(job(progress), 15, 1).slow == progress.slow


def test_a_loss_that_is_no_number_is_said_and_a_process_that_has_seen_no_loss_takes_nothing_back() -> None:
    spoilt = msgspec.structs.replace(report(step=5, metrics={"loss": "nan"}), loss_not_a_number=10)
    progress = progress_of(job(), spoilt)
    assert progress.loss_not_a_number == 10
    assert progress_of(job(progress), report(after=5, step=6)).loss_not_a_number == 10
    assert progress_of(job(progress), report(after=5, step=6, metrics={"loss": "0.5"})).loss_not_a_number == 0


_WORKERS = st.sampled_from([f"worker-{i}" for i in range(3)])
_TOLD = {"step": st.integers(0, 50), "percentage": st.integers(0, 100), "metrics": st.just({"loss": "1"})}
_REPORTS = st.lists(st.builds(report, _WORKERS, st.integers(0, 200), **_TOLD), min_size=1, max_size=12)


@given(_REPORTS, st.lists(st.booleans(), min_size=12, max_size=12))
def test_whichever_process_receives_which_report_they_come_to_one_answer(
    reports: list[ProgressReport], first: list[bool]
) -> None:
    """Two processes that write in turn, each its reports over the status, end where one process with all would end."""
    stores: tuple[dict[str, ProgressReport], dict[str, ProgressReport]] = ({}, {})
    progress: TrainingProgress | None = None
    everything: dict[str, ProgressReport] = {}
    in_order = sorted(reports, key=lambda received: (received.time, received.step, received.percentage))
    for received, to_first in zip(in_order, first, strict=False):
        store = stores[0 if to_first else 1]
        for kept in (store, everything):
            kept[received.replica] = overlaid(kept.get(received.replica), received)
        progress = merged(job(progress), store)
    for store in (*stores, *stores):
        progress = merged(job(progress), store)
    alone = merged(job(), everything)
    assert progress is not None
    assert progress.last_updated_time == alone.last_updated_time
    assert (progress.replica, progress.report_time, progress.step) == (alone.replica, alone.report_time, alone.step)
    for store in stores:
        assert merged(job(progress), store) == progress  # so nobody has anything to write any more
