"""Decides whether a worker may be about to end, and whether an interrupted job has finished. Pure.

An interrupted run sends SIGTERM to its programs. In programs with several workers, TensorFlow catches SIGTERM, and the
training continues. The training may finish within the grace period. Exit code 0 alone doesn't show that the training
finished: a program that handles SIGTERM itself saves its state, and exits with 0 in the middle of its training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from tfoperator.api.replicas.names import parse_replica_name, replica_name
from tfoperator.api.replicas.replica_pods import ENDED_PHASES, replica_phase
from tfoperator.api.v1.choices import ReplicaType, SuccessPolicy
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import Pod
from tfoperator.local.run.fit_output import FitOutput
from tfoperator.report.facts import ReplicaFacts

_TAKEN_BY_TENSORFLOW = "preemption_notifier.cc"
_CAUGHT = "SIGTERM caught"
"""A text in the line that TensorFlow logs when it catches SIGTERM. In this case the program itself does not receive
SIGTERM.
"""

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def may_be_ending(pod: Pod, jobs: Mapping[str, TFJob]) -> bool:
    """Return whether a pod runs a worker that may end by itself soon. Call this function when the pod's job has ended.

    Workers that train together end at about the same time, so the last workers may end shortly after the job. `jobs`
    contains the jobs by UID. Return False for a job with parameter servers, because its workers don't end at the same
    time. Return False for a job with a `cleanPodPolicy`: when the job ends, the operator stops the pods that still run
    at once, or never. In the first case, a worker gets no time to end by itself. In the second case, it may run long.
    """
    job = jobs.get(pod.metadata.controller.uid) if pod.metadata.controller is not None else None
    kind, _ = parse_replica_name(replica_name(pod))
    if job is None or kind is not ReplicaType.WORKER or replica_phase(pod) in ENDED_PHASES:
        return False
    servers = job.spec.tf_replica_specs.get(ReplicaType.PS)
    return (servers is None or servers.replicas == 0) and not job.spec.policy.clean_pod_policy


def has_finished(job: TFJob, replicas: Sequence[ReplicaFacts]) -> bool:
    """Return whether the replicas that decide the job's success completed their training, even if they got SIGTERM."""
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
    """Return whether a replica completed its training and ended with exit code 0, even if the run had asked it to stop.

    A replica that was asked to stop counts only if its last lines show that TensorFlow caught SIGTERM, or that the
    training reached its last step.
    """
    run = replica.last_run
    if run is None or run.exit_code != 0:
        return False
    if not run.stopped or any(_TAKEN_BY_TENSORFLOW in line and _CAUGHT in line for line in run.tail):
        return True
    output = FitOutput()
    reports = (output.read((line,), 0.0, _ANY_TIME) for line in run.tail)
    return any(report is not None and report.percentage == 100 for report in reports)
