"""The progress of the training: whether replicas report it, and the last report in the status."""

from datetime import datetime
from typing import Annotated, Self

import msgspec

from tfoperator.api.fields.field import Field
from tfoperator.api.fields.limits import MAX_BEHIND, MAX_NOT_A_NUMBER, MAX_SHOWN_METRICS


class ProgressReporting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether the replicas get the address for reports about the training's progress. `{}` means that they get it."""

    enabled: Annotated[
        bool | None,
        Field("Whether the replicas get the address to which they report their progress; true if unset."),
    ] = None


class Metric(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A number (or a word) that the program has reported."""

    name: Annotated[str, Field("Name of the metric, such as loss.")]
    value: Annotated[str, Field("Value of the metric.")]


class ReplicaProgress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The step of one replica.

    For a slow replica, `factor` ("2.1") is its step time divided by the median step time of its type.
    """

    name: Annotated[str, Field("Name of the replica, such as worker-0.")]
    step: Annotated[int | None, Field("Last step that the replica reported.", int64=True)] = None
    last_updated_time: Annotated[datetime | None, Field("Time of the last report of the replica.")] = None
    factor: Annotated[
        str,
        Field(
            "Duration of the replica's steps as a multiple of the usual duration, such as 2.1. It is set only for "
            "slow replicas."
        ),
    ] = ""


class TrainingProgress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The last report of the training program about its progress.

    - `replica`: the replica that sent the report. It is the first replica (the chief, else worker-0, and so on) that
      sends reports and has not stopped sending them.
    - `report_time`: when the report of `replica` arrived.
    - `last_updated_time`: the time of the newest report of any replica.
    - `behind`: if several replicas report, the replicas that are furthest behind, starting with the furthest.
    - `slow`: the replicas with long step times.
    - `loss_not_a_number`: the number of reports in a row in which a metric named loss is not a number, at most ten.
    - `completion` ("43%") and `eta` ("3m20s"): `percentage` and `estimated_remaining_seconds` in a form for people,
      because a printer column can't format numbers.
    """

    completion: Annotated[str, Field("Share of the training that is done, such as 43%.")] = ""
    eta: Annotated[str, Field("Estimated time until the end, such as 3m20s.")] = ""
    percentage: Annotated[int | None, Field("Share of the training that is done, as a number from 0 to 100.")] = None
    step: Annotated[int | None, Field("Step of the training: the metric current_step.", int64=True)] = None
    total_steps: Annotated[int | None, Field("Total number of steps: the metric total_steps.", int64=True)] = None
    estimated_remaining_seconds: Annotated[int | None, Field("Estimated seconds until the end.", int64=True)] = None
    metrics: Annotated[
        tuple[Metric, ...], Field("The other metrics that were reported.", max_items=MAX_SHOWN_METRICS)
    ] = ()
    replica: Annotated[str, Field("Name of the replica that sent this report, such as worker-0.")] = ""
    report_time: Annotated[datetime | None, Field("Time at which this report arrived.")] = None
    last_updated_time: Annotated[datetime | None, Field("Time of the last report of any replica.")] = None
    behind: Annotated[
        tuple[ReplicaProgress, ...], Field("The replicas that are furthest behind.", max_items=MAX_BEHIND)
    ] = ()
    slow: Annotated[
        tuple[ReplicaProgress, ...],
        Field("The replicas whose steps take much longer than the steps of the other replicas.", max_items=MAX_BEHIND),
    ] = ()
    loss_not_a_number: Annotated[
        int,
        Field(
            "Number of reports in a row in which a metric named loss is not a number. The count stops at the number "
            "at which the job is Diverged.",
            le=MAX_NOT_A_NUMBER,
        ),
    ] = 0

    def without_estimate(self) -> Self:
        """Return the progress of a job that has ended, without an estimate of the remaining time."""
        return msgspec.structs.replace(self, eta="", estimated_remaining_seconds=None)
