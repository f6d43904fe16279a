"""Decides whether a job that was interrupted had finished all the same. Pure.

TensorFlow takes SIGTERM from programs with several workers, and they train on: within the grace period they may finish.
Exit code 0 alone doesn't show it, for a program that handles SIGTERM saves, and exits with 0 amid its training.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tfoperator.api.names import parse_replica_name
from tfoperator.api.v1.types import ReplicaType, SuccessPolicy, TFJob
from tfoperator.local.run.fit_output import FitOutput
from tfoperator.report.facts import ReplicaFacts

_TAKEN_BY_TENSORFLOW = "preemption_notifier.cc"
_CAUGHT = "SIGTERM caught"
"""In the line that TensorFlow logs when it takes SIGTERM, so that the program does not see it."""

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def has_finished(job: TFJob, replicas: Sequence[ReplicaFacts]) -> bool:
    """Return whether the replicas that decide on the job's success have trained to their end, though told to stop."""
    deciding = [replica for replica in replicas if _decides(job, replica.name)]
    return bool(deciding) and all(map(trained_to_its_end, deciding))


def _decides(job: TFJob, name: str) -> bool:
    kinds = {kind for kind, spec in job.spec.tf_replica_specs.items() if spec is not None and spec.replicas != 0}
    kind, index = parse_replica_name(name)
    leaders = {ReplicaType.CHIEF, ReplicaType.MASTER} & kinds
    if job.spec.success_policy == SuccessPolicy.ALL_WORKERS:
        return kind is ReplicaType.WORKER or kind in leaders
    return kind in leaders if leaders else kind is ReplicaType.WORKER and index == 0


def trained_to_its_end(replica: ReplicaFacts) -> bool:
    """Return whether a replica has ended by itself and well, though it may have been told to stop."""
    run = replica.last_run
    if run is None or run.exit_code != 0:
        return False
    if not run.stopped or any(_TAKEN_BY_TENSORFLOW in line and _CAUGHT in line for line in run.tail):
        return True
    output = FitOutput()
    reports = (output.read((line,), 0.0, _ANY_TIME) for line in run.tail)
    return any(report is not None and report.percentage == 100 for report in reports)
