"""Reports restarts in place (a kubelet restarts a container in the existing pod) in a limited number of events.

Also reports API servers and kubelets that don't support restarts in place. The event is sent together with the status
write that counts the restart (`restartCounts`). So the event is not sent again when the operator observes the same pods
again, even after the operator itself was restarted. The events are about the container `tensorflow` and init
containers, because only the restarts of these containers are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.replicas.replica_pods import signal_of
from tfoperator.api.v1.reasons import EventType, JobReason
from tfoperator.base.clock import epoch_seconds
from tfoperator.controller.plan.facts.facts import Facts
from tfoperator.controller.plan.facts.proposal import Want, event
from tfoperator.controller.plan.pod_ends.restart import restarts_before
from tfoperator.controller.plan.replicas.held_resources import program_of, termination_of
from tfoperator.controller.plan.replicas.replicas import (
    ENDED_STATES,
    Replica,
    ReplicaGroup,
    ReplicaState,
    restarting_because,
    restarts_so_far,
    some,
)
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated

_MAX_NAMES = 3

_ONE_BY_ONE = 10
"""Each of the first ten restarts in place of a job is reported in an event, and so is the first restart of each of the
first ten replicas. From the tenth event with the same reason on, client-go combines the events.
"""

_ROUND = (1, 2, 5)
"""After the first ten restarts, only the 20th, 50th, 100th, 200th ... restart is reported. The numbers begin with these
digits.
"""

_UNREMARKABLE_REASONS = ("", "Completed", "Error")


class _Restarted(msgspec.Struct, frozen=True):
    """A replica with restarts in place that this plan counts: `new` restarts after `before` others in the same pod."""

    group: ReplicaGroup
    index: int
    pod: Pod
    awaits_kubelet: bool
    before: int
    new: int

    @property
    def after(self) -> int:
        """The number of restarts in the pod after these restarts."""
        return self.before + self.new


def report_restarts_in_place(groups: Sequence[ReplicaGroup]) -> Iterator[Want]:
    """Report the restarts in place that this plan counts, if their number requires an event.

    `docs/decisions/2026-11-29-events-of-restarts-in-place.md` has the rule for these events, and the reasons for the
    rule.
    """
    new = [
        restarted
        for group in groups
        if group.may_count_in_place
        for restarted in _restarted(group)
        if restarted.new > 0
    ]
    if not new:
        return
    all_restarted = [restarted for group in groups for restarted in _restarted(group)]
    before, after = (
        sum(restarted.before for restarted in all_restarted),
        sum(restarted.after for restarted in all_restarted),
    )
    replicas_before = sum(restarted.before > 0 for restarted in all_restarted)
    begins = any(restarted.before == 0 for restarted in new) and replicas_before < _ONE_BY_ONE
    if not begins and before >= _ONE_BY_ONE and _last_round(after) <= before:
        return
    # Replicas with their first restart come first, because earlier events have not named them.
    new.sort(key=lambda restarted: restarted.before)
    ends = [_last_end(restarted) for restarted in new]
    # Under the restart policy Always, the kubelet also restarts a program that has exited with 0.
    well = all(end is not None and end[1].exit_code == 0 for end in ends)
    kind: EventType = "Normal" if well else "Warning"
    yield event(JobReason.RESTARTED_IN_PLACE, _sentence(new) + _outlook(after), kind=kind)


def report_returns(facts: Facts) -> Iterator[Want]:
    """Send the event Restarting for restarts in place that had finished before the operator observed them.

    If the job ends with this plan, the newest restart of a replica that runs again is not counted, so the replica is
    not reported.
    """
    returned = [(group, replica) for group in facts.groups for replica in group.replicas if replica.has_returned]
    ended = facts.verdict.stage.is_end
    restarted = [(group, replica) for group, replica in returned if not ended or replica.state in ENDED_STATES]
    if restarted:
        yield event(JobReason.RESTARTING, restarting_because(facts.job.metadata.name, restarted))


def report_old_server() -> Want:
    """Report that the API server is too old for restarts in place, so the operator creates new pods instead."""
    return _recreation("this API server is older than Kubernetes 1.35")


def report_old_kubelets(unaided: Sequence[Replica]) -> Want:
    """Report that kubelets have not restarted the containers of `unaided`, so the operator creates new pods instead."""
    names = ", ".join(replica.pod.metadata.name for replica in unaided[:_MAX_NAMES] if replica.pod is not None)
    return _recreation(
        f"the kubelets of {names} don't support restart rules for exit codes (Kubernetes 1.35 supports them)"
    )


def _recreation(why: str) -> Want:
    return event(
        JobReason.RESTARTS_BY_RECREATION, f"spec.runPolicy.restartMode: {why}, so the operator creates new pods instead"
    )


def _restarted(group: ReplicaGroup) -> Iterator[_Restarted]:
    """Yield the replicas with restarts in place, which this plan or an earlier plan counts."""
    for replica in group.replicas:
        if replica.pod is None:
            continue
        earlier = restarts_before(replica.pod)
        # If the replica restarts but its kubelet does not make the restart, the operator creates a new pod: then the
        # newest counted restart is not a restart in place.
        awaits_kubelet = replica.by_kubelet and replica.state is ReplicaState.RESTARTING
        in_place = restarts_so_far(replica.pod) + awaits_kubelet
        counted = min(group.counts.get(replica.index, 0), in_place) - earlier
        noted = min(group.record.counts.get(replica.index, 0), in_place) - earlier
        if counted > 0:
            before = min(max(noted, 0), counted)
            yield _Restarted(group, replica.index, replica.pod, awaits_kubelet, before, counted - before)


def _sentence(new: Sequence[_Restarted]) -> str:
    if len(new) == 1:
        [restarted] = new
        where = f"in pod {restarted.pod.metadata.name}{_how(restarted)}"
        return f"{_name(restarted)} is restarted in place: {_numbers(restarted)} {where}."
    named = some(f"{_name(restarted)} ({_numbers(restarted)}{_how(restarted)})" for restarted in new)
    return f"{len(new)} replicas are restarted in place: {named}."


def _outlook(total: int) -> str:
    """Return a text about the number of restarts at which the next event comes.

    The result is empty if the next restart causes an event.
    """
    if total < _ONE_BY_ONE:
        return ""
    return (
        f" The job's pods now have {total} restarts in place; the operator will send the next event at "
        f"{_next_round(total)} restarts."
    )


def _name(restarted: _Restarted) -> str:
    return f"{restarted.group.type.lower()}-{restarted.index}"


def _numbers(restarted: _Restarted) -> str:
    return (
        f"restart {restarted.after}" if restarted.new == 1 else f"restarts {restarted.before + 1} to {restarted.after}"
    )


def _how(restarted: _Restarted) -> str:
    """Return how the container ended last, if its kubelet reports it: `, last exit code 137 (SIGKILL, OOMKilled)`."""
    last_end = _last_end(restarted)
    if last_end is None:
        return ""
    container, end = last_end
    reason = "" if end.reason in _UNREMARKABLE_REASONS else end.reason
    detail = ", ".join(filter(None, (signal_of(end.exit_code), reason)))
    of = "" if container == DEFAULT_CONTAINER_NAME else f" of container {container}"
    return f", last exit code {end.exit_code}{of}{f' ({detail})' if detail else ''}"


def _last_end(restarted: _Restarted) -> tuple[str, ContainerStateTerminated] | None:
    """Return the container that was (or will be) restarted last, and how it ended; None if that is not known."""
    program = program_of(restarted.pod)
    if restarted.awaits_kubelet and program is not None:
        end = termination_of(program) or termination_of(program, last=True)
        return None if end is None else (program.name, end)
    containers = (program, *restarted.pod.status.init_container_statuses)
    again = [container for container in containers if container is not None and container.restart_count > 0]
    ends = [(container.name, end) for container in again if (end := termination_of(container, last=True)) is not None]
    return max(ends, key=lambda named_end: epoch_seconds(named_end[1].finished_at), default=None)


def _last_round(number: int) -> int:
    """Return the largest of 1, 2, 5, 10, 20, 50 ... that is not larger than a positive number."""
    power: int = 10 ** (len(str(number)) - 1)
    return max(digit * power for digit in _ROUND if digit * power <= number)


def _next_round(number: int) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50 ... that is larger than a positive number."""
    power: int = 10 ** (len(str(number)) - 1)
    return next((digit * power for digit in _ROUND if digit * power > number), 10 * power)
