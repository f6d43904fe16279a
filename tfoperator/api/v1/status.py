"""The status of a TFJob `kubeflow.org/v1` as types, and the sets of replica indexes in it as short strings. Pure.

A status must remember which of perhaps a thousand replicas are finished without growing to a thousand numbers.
What is read back may have been edited by hand, so reading keeps what it understands and never raises or blows up.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

MAX_INDEXES = 100_000
"""The most indexes that one string yields: `"0-2147483647"` must not eat the operator's memory."""


class JobCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One observation about the job; the latest stands last in `TFJobStatus.conditions`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: datetime | None = None
    last_transition_time: datetime | None = None


class ReplicaStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the replicas of one type do.

    `active` counts pods that run (the peer's meaning), `ready` those whose containers are all ready.
    `restarts` is how often replicas of this type were started again, in place or by recreation, since the job
    began: the sum that people read. `restart_counts` holds it per index, where it isn't zero, so that it survives
    pod deletion and operator restarts and a replica's delay grows with its own failures.
    `completed_indexes` are the indexes that succeeded: they are not run again even if their pod is deleted.
    `failed_indexes` are those that failed for good: not run again either, as long as the type has that index.
    `started_indexes` are those that ever had a pod: without one now, their pod has vanished, rather than never been
    made. All are written like batch/v1's Job writes them: `"0,2-5"`.
    `selector` is the label selector of the type's pods, of the workers only: an autoscaler reads it.
    """

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int = 0
    restarts: int = 0
    restart_counts: dict[str, int] = {}
    completed_indexes: str = ""
    failed_indexes: str = ""
    started_indexes: str = ""
    selector: str = ""


class TensorBoardStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the job's TensorBoard is, and whether its page answers."""

    url: str = ""
    ready: bool = False


class Metric(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A number (or a word) that the training program has reported, as it wrote it."""

    name: str
    value: str


class ReplicaProgress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How far one replica is: `worker-0`, its step, and when it reported last."""

    name: str
    step: int | None = None
    last_updated_time: datetime | None = None


class TrainingProgress(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the training program has reported about itself.

    `replica` is the one whose report this is, and `report_time` when it came: of all replicas that report, the first
    that has not fallen silent (the chief, else worker-0, and so on). `last_updated_time` is that of the newest report
    of any replica. `behind` are the replicas that are furthest behind, the furthest first, where several report.
    `completion` ("43%") and `eta` ("3m20s") say `percentage` and `estimated_remaining_seconds` for people, since a
    printer column can't.
    """

    completion: str = ""
    eta: str = ""
    percentage: int | None = None
    step: int | None = None
    total_steps: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: tuple[Metric, ...] = ()
    replica: str = ""
    report_time: datetime | None = None
    last_updated_time: datetime | None = None
    behind: tuple[ReplicaProgress, ...] = ()

    def without_estimate(self) -> TrainingProgress:
        """Return the progress of a job that has ended: no time is left."""
        return msgspec.structs.replace(self, eta="", estimated_remaining_seconds=None)


class TFJobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the operator observed. All times are UTC, whole seconds.

    `phase`, `ready` ("3/4") and `restarts` are what people look for first, in one word or number each; `kubectl get
    tfjobs -o wide` prints them, and a printer column can't add up numbers itself. `job_restarts` is how often all
    replicas were started again together (`restartScope: Job`); each time counts once in `restarts`.

    `last_reconcile_time` is when the job was last compared with the live state (`tfoperator.reconciler`). It is written
    with other changes of the status, or else with the first comparison, and then before it is five minutes old, until
    the job ends; more rarely where that would be more than five writes a second in all. It determines when the next
    comparison is due, also for a new leader. A wrong value costs a comparison that comes early or, by five minutes at
    most, late.

    `network` is what the job was started with if that is PerJob, and empty otherwise.
    """

    phase: str = ""
    ready: str = ""
    restarts: int = 0
    job_restarts: int = 0
    conditions: tuple[JobCondition, ...] = ()
    replica_statuses: dict[str, ReplicaStatus] = {}
    start_time: datetime | None = None
    completion_time: datetime | None = None
    last_reconcile_time: datetime | None = None
    tensor_board: TensorBoardStatus | None = None
    progress: TrainingProgress | None = None
    network: str = ""
    observed_generation: int = 0


def format_indexes(indexes: Iterable[int]) -> str:
    """Write a set of indexes, `"0,2-5"`: ascending, neighbours (two or more) joined as `first-last`; "" for none."""
    parts: list[str] = []
    first = last = -2
    for index in sorted(set(indexes)):
        if index == last + 1:
            last = index
            continue
        if last >= 0:
            parts.append(_range(first, last))
        first = last = index
    if last >= 0:
        parts.append(_range(first, last))
    return ",".join(parts)


def parse_indexes(text: str) -> frozenset[int]:
    """Read a set of indexes in any order, overlaps allowed.

    Parts that are not `n` or `n-m` (n <= m) are skipped, and so is everything after the first `MAX_INDEXES` indexes.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low = _number(first)
        high = _number(last) if dash else low
        if low is None or high is None:
            continue
        found.update(range(low, min(high + 1, low + MAX_INDEXES - len(found))))
        if len(found) >= MAX_INDEXES:
            break
    return frozenset(found)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
