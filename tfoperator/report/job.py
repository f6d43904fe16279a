"""Takes from a TFJob and its pods the facts that a report needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.api.replicas.names import (
    DEFAULT_CONTAINER_NAME,
    all_restarts_before,
    replica_name,
    replica_of,
)
from tfoperator.api.replicas.templates import is_absent
from tfoperator.api.v1.choices import ReplicaType, RestartScope
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import (
    ACTIVE_TOO_LONG,
    condition_of,
    final_condition,
    has_condition,
)
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.state import end_word
from tfoperator.api.v1.types import TFJob
from tfoperator.api.v1.usage_text import usage_text
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.kube.views.event import Event
from tfoperator.kube.views.objects import Pod
from tfoperator.report.facts import FinalState, JobFacts, ReplicaFacts, RunFacts, TakenReplica

_STATED_BEHIND = re.compile(r"[Bb]ehind: ([a-z]+-\d+(?:, [a-z]+-\d+)*)")


def facts_of_replica(
    job: TFJob,
    pod: Pod,
    *,
    state: FinalState,
    runs: Sequence[RunFacts],
    ended_runs: int,
    detail: str = "",
    stacks: str = "",
    no_stacks: str = "",
) -> ReplicaFacts:
    """Return the facts about the replica of a pod, with the restart policy and memory limit of its replica type.

    The caller gives the facts that come from other sources, such as the runs with their logs. `ended_runs` is the
    number of known runs before the last run that ended by themselves. After a run that was stopped from outside, the
    next run is a restart only if the job or the pod counts it: a suspension is no restart.
    """
    replica = replica_of(pod.metadata.labels)
    spec = job.spec.tf_replica_specs.get(replica[0]) if replica is not None else None
    return ReplicaFacts(
        name=replica_name(pod),
        pod=pod.metadata.name,
        state=state,
        detail=detail,
        restarts=max(ended_runs, _counted_restarts(job, pod, replica)),
        disruptions=_disruptions(job, replica),
        restart_policy="" if spec is None else spec.restart_policy or "Never",
        memory_limit=None if spec is None or is_absent(spec.template) else _limit(spec.template),
        runs=tuple(runs),
        stacks=stacks,
        no_stacks=no_stacks,
    )


def _counted_restarts(job: TFJob, pod: Pod, replica: tuple[ReplicaType, int] | None) -> int:
    """Return the number of restarts that the operator and the kubelet have counted for the replica of the pod."""
    in_pod = all_restarts_before(pod.metadata.annotations) + sum(
        status.restart_count for status in pod.status.container_statuses if status.name == DEFAULT_CONTAINER_NAME
    )
    status = None if replica is None else job.status.replica_statuses.get(replica[0])
    in_status = 0 if replica is None or status is None else status.restart_counts.get(str(replica[1]), 0)
    return max(in_pod, in_status)


def _disruptions(job: TFJob, replica: tuple[ReplicaType, int] | None) -> int:
    """Return how often the job lost the replica by a disruption, from `disruptionCounts` in the job's status."""
    status = None if replica is None else job.status.replica_statuses.get(replica[0])
    return 0 if replica is None or status is None else status.disruption_counts.get(str(replica[1]), 0)


def facts_of_job(job: TFJob) -> JobFacts:
    """Return the facts that the TFJob itself contains, such as its outcome. The caller adds `replicas`."""
    end = final_condition(job)
    stalled = condition_of(job, ConditionType.STALLED)
    message = stalled.message if stalled is not None and stalled.status == "True" else ""
    if end is not None and end.reason == JobReason.PROGRESS_DEADLINE_EXCEEDED:
        message = end.message
    behind = _STATED_BEHIND.search(message)
    running = has_condition(job, ConditionType.RUNNING)
    usage, elastic = job.status.usage, job.status.elastic
    return JobFacts(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        outcome=end_word(end) if end is not None else "Running" if running else "Pending",
        message=end.message if end is not None else _held_because(job),
        stalled=message,
        behind=tuple(behind[1].split(", ")) if behind is not None else (),
        overdue=end is not None and end.type == ConditionType.FAILED and ACTIVE_TOO_LONG in end.message,
        late=end is not None and end.reason == JobReason.START_DEADLINE_EXCEEDED,
        backoff_limit=job.spec.policy.backoff_limit,
        usage="" if usage is None or usage.phase else usage_text(usage, usage.time),
        resized=() if elastic is None or end is None else tuple(resize.text() for resize in elastic.last_resizes()),
        no_number=_loss_is_no_number(job),
        together=job.spec.policy.restart_scope == RestartScope.JOB,
        evaluator_in_cluster=_has_evaluator_in_cluster(job),
    )


def _loss_is_no_number(job: TFJob) -> str:
    """Return the message of the condition Diverged (the loss is NaN or infinite); "" if this condition is not true."""
    diverged = condition_of(job, ConditionType.DIVERGED)
    return diverged.message if diverged is not None and diverged.status == "True" else ""


def _has_evaluator_in_cluster(job: TFJob) -> bool:
    """Return whether the cluster in TF_CONFIG contains an evaluator, as far as the job shows.

    An option of the operator can also exclude evaluators; the job does not show this option.
    """
    evaluators = job.spec.tf_replica_specs.get(ReplicaType.EVALUATOR)
    return job.spec.evaluator_in_cluster is not False and evaluators is not None and evaluators.replicas != 0


_HELD = ((ConditionType.SUSPENDED, "True"), (ConditionType.ADMITTED, "False"), (ConditionType.RESTARTING, "True"))
"""Conditions, with their status, whose message is the reason why the whole job has no running pods."""


def is_held(job: TFJob) -> bool:
    """Return whether the job is suspended or waits in its queue. In both cases it has no pods."""
    return any(
        (condition := condition_of(job, kind)) is not None and condition.status == status for kind, status in _HELD[:2]
    )


def _held_because(job: TFJob) -> str:
    for kind, status in _HELD:
        condition = condition_of(job, kind)
        if condition is not None and condition.status == status:
            return condition.message
    return ""


_TAKEN = re.compile(r"(?P<type>[A-Za-z]+)-(?P<index>\d+) \((?P<cause>(?:[^()]|\([^()]*\))*)\)")
_DISRUPTION = re.compile(
    r"ended replica\(s\): (?P<one>.*)|because of (?P<all>.*) This counts as a disruption", re.DOTALL
)


def taken_replicas(events: Iterable[Event]) -> Iterator[TakenReplica]:
    """Yield the replicas that a job lost by disruptions.

    For each disruption, the operator writes an event with the reason TFJobRestarting. The message of this event names
    the replicas, as in `worker-1 (node a was drained)`.
    """
    for event in events:
        match = _DISRUPTION.search(event.message) if event.reason == JobReason.RESTARTING else None
        for taken in () if match is None else _TAKEN.finditer(match["one"] or match["all"]):
            yield TakenReplica(f"{taken['type'].lower()}-{taken['index']}", taken["cause"], event.last_seen)


def _limit(template: msgspec.Raw) -> int | None:
    """Return the memory limit, in bytes, of the container `tensorflow`. Return None without a valid limit."""
    try:
        pod: Any = msgspec.json.decode(template)
        containers = pod["spec"]["containers"]
        training = next(container for container in containers if container["name"] == DEFAULT_CONTAINER_NAME)
        return int(parse_quantity(training["resources"]["limits"]["memory"]))
    except (*UNDECODABLE, LookupError, TypeError, ValueError, StopIteration):
        return None  # no limit, or a limit that an API server has refused
