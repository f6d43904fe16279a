"""Computes the new `status.progress` of a job from the reports of its replicas and from the current status.

Each replica of the operator receives some reports of a job, and writes them to the status. So an operator replica must
merge its reports with the status, which may contain reports that other operator replicas received. For each training
replica (`worker-3`), only the newest report counts. A write never replaces a newer report. The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from tfoperator.api.fields.limits import MAX_BEHIND, MAX_SHOWN_METRICS
from tfoperator.api.replicas.names import parse_replica_name, parse_replica_type
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.job_conditions import final_condition
from tfoperator.api.v1.losses import loss_is_a_number
from tfoperator.api.v1.parts.progress import Metric, ReplicaProgress, TrainingProgress
from tfoperator.api.v1.status import parse_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.base.durations import human_duration
from tfoperator.servers.progress.paces import slow_replicas
from tfoperator.servers.progress.reports import ProgressReport

_MAX_SILENCE = timedelta(seconds=60)
"""If a replica sends no report for this time, `status.progress` shows the progress of another replica. Clients report
every 5 s, or after each step if a step takes longer.
"""

_NEVER = datetime.min.replace(tzinfo=UTC)

_RANKS = (ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.WORKER, ReplicaType.EVALUATOR, ReplicaType.PS)


def overlaid(before: ProgressReport | None, report: ProgressReport) -> ProgressReport:
    """Return a replica's new report, merged with its last report `before`.

    If a field is missing in the new report, its last value is kept. But if the new report has a percentage or a step,
    and no estimate of the remaining time, the old estimate is removed: it does not fit the new progress.
    """
    if before is None:
        return msgspec.structs.replace(report, metrics=_bounded(report.metrics))
    remaining = report.estimated_remaining_seconds
    if remaining is None and report.percentage is None and report.step is None:
        remaining = before.estimated_remaining_seconds
    # New metrics come first. If there are more metrics than a status may have, `_bounded` drops the last.
    metrics = {metric.name: metric for metric in report.metrics}
    for metric in before.metrics:
        metrics.setdefault(metric.name, metric)
    return msgspec.structs.replace(
        report,
        time=max(before.time, report.time),
        percentage=before.percentage if report.percentage is None else report.percentage,
        estimated_remaining_seconds=remaining,
        step=before.step if report.step is None else report.step,
        total_steps=before.total_steps if report.total_steps is None else report.total_steps,
        loss_not_a_number=(
            before.loss_not_a_number if loss_is_a_number(report.metrics) is None else report.loss_not_a_number
        ),
        metrics=_bounded(metrics.values()),
    )


def merged(job: TFJob, reports: Mapping[str, ProgressReport]) -> TrainingProgress | None:
    """Return a job's new `status.progress`, computed from its current value and from these reports (by replica).

    Return None if the job has no progress yet.
    """
    written = job.status.progress
    if not reports:
        return written
    by_replica = _with_status(written, reports)
    newest = max(report.time for report in by_replica.values())
    if written is not None and written.last_updated_time is not None:
        newest = max(newest, written.last_updated_time)
    # The status shows the report of the replica with the highest rank that is not silent. Silence is measured from the
    # newest report of the job, also if another operator replica has received it. Otherwise two operator replicas could
    # choose different replicas, and would overwrite each other's choice forever.
    audible = [report for report in by_replica.values() if newest - report.time <= _MAX_SILENCE]
    speaker = min(audible or [max(by_replica.values(), key=_age)], key=lambda report: rank_of(report.replica))
    percentage = speaker.percentage
    if percentage is None and speaker.step is not None and speaker.total_steps:
        percentage = min(100, 100 * speaker.step // speaker.total_steps)
    remaining = speaker.estimated_remaining_seconds
    if final_condition(job) is not None:
        remaining = None
    takes_part = _takes_part(job)
    return TrainingProgress(
        completion="" if percentage is None else f"{percentage}%",
        eta="" if remaining is None else human_duration(remaining),
        percentage=percentage,
        step=speaker.step,
        total_steps=speaker.total_steps,
        estimated_remaining_seconds=remaining,
        metrics=speaker.metrics,
        replica=speaker.replica,
        report_time=speaker.time,
        last_updated_time=newest,
        behind=_behind(written, by_replica, takes_part),
        slow=tuple(replica for replica in _slow(written, reports) if takes_part(replica.name))[:MAX_BEHIND],
        loss_not_a_number=speaker.loss_not_a_number,
    )


def _with_status(written: TrainingProgress | None, reports: Mapping[str, ProgressReport]) -> dict[str, ProgressReport]:
    """Return the reports, and the report in the status `written`, which another operator replica may have received.

    If `reports` and the status have a report of the same training replica, use the newer report.
    """
    by_replica = dict(reports)
    if written is None or not written.replica or written.report_time is None:
        return by_replica
    in_status = ProgressReport(
        replica=written.replica,
        time=written.report_time,
        percentage=written.percentage,
        estimated_remaining_seconds=written.estimated_remaining_seconds,
        step=written.step,
        total_steps=written.total_steps,
        metrics=written.metrics,
        loss_not_a_number=written.loss_not_a_number,
    )
    received = by_replica.get(written.replica)
    # Times are in whole seconds. `_age` also compares steps, so that all operator replicas choose the same report.
    if received is None or _age(in_status) > _age(received):
        by_replica[written.replica] = in_status
    else:
        by_replica[written.replica] = overlaid(in_status, received)
    return by_replica


def _behind(
    written: TrainingProgress | None, reports: Mapping[str, ProgressReport], takes_part: Callable[[str], bool]
) -> tuple[ReplicaProgress, ...]:
    by_name = {report.replica: ReplicaProgress(report.replica, report.step, report.time) for report in reports.values()}
    for replica in written.behind if written is not None else ():
        received = by_name.get(replica.name)
        if replica.last_updated_time is not None and (
            received is None
            or (replica.last_updated_time, replica.step or 0)
            > (received.last_updated_time or _NEVER, received.step or 0)
        ):
            by_name[replica.name] = replica
    taking_part = [replica for replica in by_name.values() if takes_part(replica.name)]
    if len(taking_part) < 2:
        return ()
    taking_part.sort(
        key=lambda replica: (replica.step or 0, replica.last_updated_time or _NEVER, rank_of(replica.name))
    )
    return tuple(taking_part[:MAX_BEHIND])


def _slow(written: TrainingProgress | None, reports: Mapping[str, ProgressReport]) -> list[ReplicaProgress]:
    """Return the training replicas that are slow in comparison with their type (`slow_replicas`), highest rank first.

    If another operator replica has received a newer report of a training replica, use the result in the status for this
    training replica.
    """
    slow = {} if written is None else {replica.name: replica for replica in written.slow}
    for name, factor in slow_replicas(reports, tuple(slow)).items():
        time, before = reports[name].time, slow.get(name)
        if before is None or before.last_updated_time is None or before.last_updated_time <= time:
            slow.pop(name, None)
            if factor is not None:
                slow[name] = ReplicaProgress(name, reports[name].step, time, f"{factor:.1f}")
    return sorted(slow.values(), key=lambda replica: rank_of(replica.name))


def _age(report: ProgressReport) -> tuple[datetime, int, int]:
    return (report.time, report.step or 0, report.percentage or 0)


def _takes_part(job: TFJob) -> Callable[[str], bool]:
    """Return a function that returns whether a replica (`worker-3`) still trains for the job.

    The function returns False if the replica was removed by scaling down, or has completed or failed.
    """
    sizes: dict[ReplicaType, int] = {}
    for key, spec in job.spec.tf_replica_specs.items():
        kind = parse_replica_type(key)
        if kind is not None and spec is not None:
            sizes[kind] = spec.desired
    ended = {
        kind: parse_indexes(status.completed_indexes) | parse_indexes(status.failed_indexes)
        for key, status in job.status.replica_statuses.items()
        if (kind := parse_replica_type(key)) is not None
    }

    def takes_part(name: str) -> bool:
        kind, index = parse_replica_name(name)
        return (
            kind is not None and index is not None and index < sizes.get(kind, 0) and index not in ended.get(kind, ())
        )

    return takes_part


def rank_of(name: str) -> tuple[int, int, str]:
    """Return the rank of a replica (`worker-3`); a smaller value is a higher rank.

    The chief has the highest rank, then come the workers by index, evaluators and parameter servers. Among the replicas
    that have sent a report recently (see `_MAX_SILENCE`), `status.progress` shows the progress of the replica with the
    highest rank.
    """
    kind, index = parse_replica_name(name)
    if kind is None or index is None:
        return (len(_RANKS), 0, name)
    return (_RANKS.index(kind), index, name)


def _bounded(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    return tuple(metrics)[:MAX_SHOWN_METRICS]
