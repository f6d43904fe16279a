"""Restarts all replicas of a job together, where `runPolicy.restartScope` is Job.

In this module, a replica is *lost* if it must restart, or its pod has vanished.

Synchronous training can't continue without one of its workers: the other workers hang in a collective operation, or
each of them notices the loss at a different time. So if one replica must be restarted, all replicas are restarted.
Replicas that have completed are included, because a cluster of synchronous workers can't form without them. Only
replicas that have failed for good are not restarted. All old pods are gone before the first new pod is made.

`status.jobRestarts` counts these restarts. Each pod has the number that was current when it was created
(`ANNOTATION_JOB_RESTARTS`): a pod with a smaller number is old, in any state. The number after a loss is a function of
the observed state (the largest number + 1), and it is written before anything is deleted. So if a step is done twice,
because of a stale cache or a crash, the restart counts once. All replicas that are lost with the same number also count
once.

A restart counts as a disruption if a replica was taken from the job (for example evicted). There is one exception: if
another replica is known to have failed before, the restart counts as a failure, because that failure caused the later
events. If a user changes the scope from Replica to Job after a replica was lost, the loss already counts as a restart
of that replica. So the restart of all replicas then counts as a disruption, too: it is not a second failure, and there
is no delay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from tfoperator.api.replicas.names import ANNOTATION_JOB_DISRUPTIONS, MAX_RESTARTS, annotated_count, replica_of
from tfoperator.api.replicas.replica_pods import replica_phase
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJob
from tfoperator.base.clock import epoch_seconds, seconds_between
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.pod_ends.restart import (
    CLOCK_SKEW,
    ending_of,
    finished_at,
    job_restarts_before,
    restart_wait,
)
from tfoperator.controller.plan.replicas.replicas import (
    JobRestart,
    Replica,
    ReplicaGroup,
    ReplicaState,
    without_new_restart,
)
from tfoperator.controller.pods.manifests import restarts_together
from tfoperator.kube.views.objects import Pod

_LOST_STATES = (ReplicaState.RESTARTING, ReplicaState.VANISHED)


def with_job_restart(facts: Facts, number: int) -> Facts:
    """Return the facts with the restart of all replicas that is necessary or in progress.

    `number` is the number of such restarts until now. If all replicas restart, a lost replica does not also count its
    own restart. If a replica failed for good after another replica was lost, the failed replica restarts, too: its
    failure was a consequence of the loss.
    """
    groups, pods = facts.groups, facts.observed.pods
    causes: tuple[str, ...] = ()
    is_disruption = False
    disruptions = min(_disruptions_so_far(facts.job, pods), number)
    # The number of restarts can't exceed MAX_RESTARTS. From then on, a lost replica restarts alone.
    if number < MAX_RESTARTS:
        together = groups if restarts_together(facts.job) else ()
        lost = [(group, replica) for group in together for replica in group.replicas if replica.state in _LOST_STATES]
        if lost:
            # While `restartScope` was Replica, a lost replica counted its own restart. Such a loss is not counted again
            # as a failure of the job.
            new = [replica for _, replica in lost if replica.newly_restarting]
            is_disruption = bool(new) and _was_disrupted(new)
            afterwards = _failed_afterwards(groups, [replica for _, replica in lost])
            lost += afterwards
            causes = tuple(
                f"{group.type}-{replica.index} ({replica.disruption or replica.cause})" for group, replica in lost
            )
            number += 1
            disruptions += is_disruption or not (new or afterwards)
            groups = _restarted_together(groups, [(group.type, replica.index) for group, replica in afterwards])
        elif facts.size is not None and facts.size.changes and facts.size.has_pods:
            # A change of the number of workers is not a failure. It counts as a disruption, so the restart has no
            # delay.
            causes, number, disruptions = (facts.size.change,), number + 1, disruptions + 1
            groups = _restarted_together(groups, ())
    old = tuple(pod for pod in pods if job_restarts_before(pod) < number and _goes(pod, groups))
    failed = (pod for pod in old if replica_phase(pod) == "Failed" and not _is_leaving(pod))
    own = (pod for pod in failed if not ending_of(pod).is_disruption)
    wait = max((restart_wait(pod, number - disruptions, facts.now, facts.options) for pod in own), default=0.0)
    restart = JobRestart(number, disruptions, causes, old, wait, is_disruption)
    return msgspec.structs.replace(facts, groups=groups, restart=restart)


def _restarted_together(
    groups: Sequence[ReplicaGroup], lost: Collection[tuple[ReplicaType, int]]
) -> tuple[ReplicaGroup, ...]:
    """Return the groups without new restarts of single replicas, because the restart of the whole job counts instead.

    The replicas in `lost` have failed for good. They are changed to restarting.
    """

    def changed(group: ReplicaGroup, replica: Replica) -> Replica:
        if (group.type, replica.index) in lost:
            replica = msgspec.structs.replace(replica, state=ReplicaState.RESTARTING, newly_restarting=True)
        return without_new_restart(replica)

    return tuple(group.changed(partial(changed, group)) for group in groups)


def _disruptions_so_far(job: TFJob, pods: Iterable[Pod]) -> int:
    """Return how many restarts of all replicas were caused by disruptions.

    If the status is stale, a pod shows the number.
    """
    by_pods = (annotated_count(pod.metadata.annotations, ANNOTATION_JOB_DISRUPTIONS) for pod in pods)
    return max(min(job.status.job_disruptions, MAX_RESTARTS), *by_pods, 0)


def _was_disrupted(lost: Sequence[Replica]) -> bool:
    """Return whether a disruption ended one of these replicas before any of the others failed.

    If the order is uncertain, return True.
    """
    taken = [_taken_at(replica.pod) for replica in lost if replica.disruption]
    first = None if None in taken else min(filter(None, taken), key=epoch_seconds, default=None)
    if not taken or first is None:
        return bool(taken)
    ends = [None if replica.pod is None else finished_at(replica.pod) for replica in lost if not replica.disruption]
    return all(end is None or seconds_between(end, first) < CLOCK_SKEW for end in ends)


def _taken_at(pod: Pod | None) -> datetime | None:
    """Return when a disruption took a pod: when its deletion was requested, or when it ended; None if unknown."""
    if pod is None:
        return None
    return pod.metadata.certain_deletion if _is_leaving(pod) else finished_at(pod)


def _failed_afterwards(groups: Sequence[ReplicaGroup], lost: Sequence[Replica]) -> list[tuple[ReplicaGroup, Replica]]:
    """Return the replicas that failed for good at or after the time at which the first replica was lost.

    The loss has probably made them fail. So they count as lost and are restarted with the others, unlike replicas that
    failed for good before the loss.

    If the order of loss and failure is uncertain, the failure counts as a consequence of the loss: an unnecessary
    restart does less harm than a job that ends wrongly.
    """
    ends = [None if replica.pod is None or _is_leaving(replica.pod) else finished_at(replica.pod) for replica in lost]
    first = None if None in ends else min(filter(None, ends), key=epoch_seconds)
    failed = []
    for group in groups:
        for replica in group.newly_failed:
            end = None if replica.pod is None else finished_at(replica.pod)
            if first is None or end is None or seconds_between(first, end) >= 0:
                failed.append((group, replica))
    return failed


def _is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _goes(pod: Pod, groups: Iterable[ReplicaGroup]) -> bool:
    """Return whether an old pod must be deleted.

    A pod stays if its replica failed for good, or if it belongs to no replica.
    """
    replica = replica_of(pod.metadata.labels)
    return replica is not None and not any(group.type is replica[0] and replica[1] in group.failed for group in groups)
