"""Random data of the operator about a job in addition to the job's objects: reports, log lines, queue, requests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hack.random_jobs.chances import chance, some
from tfoperator.api.v1.parts.progress import ReplicaProgress, TrainingProgress
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.values.observed import (
    Comparison,
    LogLines,
    NewestLine,
    QueueGate,
    UnkeptLogs,
    Unseen,
)
from tfoperator.kube.views.objects import Pod

_AGES = (0, 1, 5, 9, 10, 11, 29, 30, 31, 600)
_NEVER = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_PRIORITIES = {"x": 1, "high": 1000}
_REFUSED = {"mnist-worker-0": "another controller owns it"}


class Witnesses(NamedTuple):
    """The ways in which an operator looks into programs, and whether the job is in a queue of Kueue."""

    reports: bool
    logs: bool
    stacks: bool
    archive: bool
    queue: bool

    @classmethod
    def of(cls, rng: random.Random) -> Witnesses:
        """Return some of them."""
        return cls(*(chance(rng, share) for share in (0.4, 0.3, 0.3, 0.3, 0.2)))


def random_memory(
    rng: random.Random, job: TFJob, pods: Sequence[Pod], now: datetime, inside: Witnesses
) -> dict[str, Any]:
    """Return fields of `Observed`, as they are known by chance."""
    uids = sorted(pod.metadata.uid for pod in pods)
    kinds = [str(kind) for kind in job.spec.tf_replica_specs]
    fields: dict[str, Any] = {"priorities": _PRIORITIES}
    if inside.reports and chance(rng, 0.8):
        fields["progress"] = _progress(rng, pods, now)
    if inside.logs:
        fields["log_lines"] = _lines(rng, uids, now)
    if inside.stacks:
        fields["stacks_taken"] = rng.choice((_NEVER, _ago(rng, now)))
    if inside.archive:
        fields["unkept_logs"] = UnkeptLogs(frozenset(_some_of(rng, uids)), rng.choice((1.0, 30.0)))
    if inside.queue and chance(rng, 0.9):
        admitted = chance(rng, 0.6)
        fields["gate"] = QueueGate("Admitted" if admitted else "QuotaReserved", "cluster-queue", admitted)
    fields |= some(rng, 0.1, comparison=lambda: Comparison(now, chance(rng, 0.5)))
    fields |= some(
        rng,
        0.1,
        edited_templates=lambda: tuple(_some_of(rng, kinds)),
        uncounted_types=lambda: tuple(_some_of(rng, kinds)),
        refused=lambda: _REFUSED,
        unseen=lambda: _unseen(rng, uids, kinds),
    )
    return fields | some(rng, 0.005, problems=lambda: (f"spec: {'x' * rng.choice((1, 1, 994, 995))}",))


def _unseen(rng: random.Random, uids: Sequence[str], kinds: Sequence[str]) -> Unseen:
    awaited = {(rng.choice((*kinds, "")).lower(), rng.choice(("pods", "services"))) for _ in range(rng.choice((0, 1)))}
    return Unseen(frozenset(awaited), frozenset(_some_of(rng, uids)))


def _progress(rng: random.Random, pods: Sequence[Pod], now: datetime) -> TrainingProgress:
    names = sorted(pod.metadata.name.removeprefix("mnist-") for pod in pods)
    steps = rng.choice(((0, 6, 7), (None,)))
    behind = [
        ReplicaProgress(name=name, step=rng.choice(steps), last_updated_time=rng.choice((None, _ago(rng, now))))
        for name in (names if chance(rng, 0.2) else _some_of(rng, names))
    ]
    slow = [
        ReplicaProgress(name=name, factor=rng.choice(("1.6", "2.1")), last_updated_time=rng.choice((None, *3 * [now])))
        for name in _some_of(rng, names)
    ]
    return TrainingProgress(
        step=rng.choice((None, 0, 1, 5, 6, 7, 8)),
        percentage=rng.choice((None, 0, 45)),
        last_updated_time=_ago(rng, now),
        behind=tuple(behind),
        slow=tuple(slow) if chance(rng, 0.3) else (),
    )


def _lines(rng: random.Random, uids: Sequence[str], now: datetime) -> LogLines:
    newest = {
        uid: NewestLine(_ago(rng, now), rng.choice((None, _ago(rng, now))), stopped=chance(rng, 0.1))
        for uid in _some_of(rng, uids)
    }
    return LogLines(newest, rng.choice((None, _ago(rng, now))), rng.choice(("", "", "the kubelet does not answer")))


def _some_of(rng: random.Random, values: Sequence[str]) -> list[str]:
    return rng.sample(values, rng.randrange(len(values) + 1))


def _ago(rng: random.Random, now: datetime) -> datetime:
    return now - timedelta(seconds=rng.choice(_AGES))
