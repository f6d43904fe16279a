"""A job's PodGroup: whether there is a PodGroup, its spec, whether pods may be created yet, and why they wait.

A job is scheduled as a gang from its first pod on, or never. A job may have pods without a PodGroup from the time
before an administrator chose a gang scheduler. A later PodGroup would have none of these pods as members, and a
restarted pod would wait for ever for the other members of its gang.

There must be room for `minAvailable` pods at the same time. The default is all pods; for an elastic job, only
`minReplicas` of its workers count. If an elastic job has fewer replicas than `minAvailable`, because it has fewer
workers than wanted, there must be room for all of its replicas. `minResources` is the sum of the requests of these
pods. If a job needs fewer pods than it has, `minResources` counts only the pods that its scheduler would schedule
first. The order is by the priority of the pods' PriorityClass, then by type (chief, master, parameter servers, workers,
evaluators), then by index. (The Go operator iterates over a Go map here, so its choice is random.) Replicas that have
ended count neither for `minAvailable` nor for `minResources`: they need no room any more, and schedulers don't see
their pods. If they counted, a restarted replica would wait for ever.

A PodGroup of Kubernetes' own kind exists as long as its pods, even after its deletion was requested, and only its size
can be changed. Its priority class, topology and mode of disruption stay as they were in the job when the PodGroup was
created. (If the job names no priority class, but all its pods have the same class, the PodGroup has this class.)

The reason why a gang waits is reported once for all its pods, and its text changes only when the reason changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tfoperator.api.replicas.data_service import member_of
from tfoperator.api.replicas.names import GANG_TOPOLOGY_ANNOTATION
from tfoperator.api.v1.parts.run_policy import SchedulingPolicy
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import WaitingReplicas
from tfoperator.api.waiting import ReasonKind, unschedulable_reasons
from tfoperator.controller.plan.facts.elastic_size import Size
from tfoperator.controller.plan.facts.facts import DataServiceState, Facts, Gang, Member
from tfoperator.controller.plan.facts.proposal import Act, Want, event
from tfoperator.controller.plan.replicas.replicas import Replica, ReplicaGroup, ReplicaState
from tfoperator.controller.plan.values.actions import Create, Patch, PhaseName
from tfoperator.controller.pods.bodies import owner_reference
from tfoperator.controller.pods.data_service import DataServiceManifests, is_in_gang
from tfoperator.controller.pods.gang import GANG_ORDER, GangScheduler
from tfoperator.controller.pods.manifests import ReplicaManifests, restarts_together
from tfoperator.controller.pods.pod_groups import PodGroup, PodGroupSpec
from tfoperator.controller.pods.resources import ResourceAmounts, pod_requests
from tfoperator.controller.pods.template import PodTemplateError, Template
from tfoperator.kube.views.objects import Pod

_NOT_ADMITTED_PHASES = ("", "Pending")
_SCHEDULING_POLICY = "spec.runPolicy.schedulingPolicy"
_MAX_REASONS = 3
_MAX_REASON_LENGTH = 240
_MOVING_MEMBERS = (DataServiceState.FAILED, DataServiceState.LEAVING)


class _DataService(NamedTuple):
    """A data service whose pods are members of the gang. The manifests are read only for the pods' requests."""

    members: Sequence[Member]
    manifests: DataServiceManifests


def with_gang(facts: Facts, scheduler: GangScheduler) -> Facts:
    """Return the facts with the gang of an active job; the gang is None if the job's pods are scheduled separately.

    Raises PodTemplateError if a template's requests can't be read, or the PodGroup would name a queue or class that the
    administrator does not allow.
    """
    job, groups, current = facts.job, facts.groups, facts.observed.pod_group
    replicas = (pod for pod in facts.observed.pods if member_of(pod.metadata.labels) is None)
    if current is None and not all(scheduler.is_member(pod, job) for pod in replicas):
        return facts
    manifests = ReplicaManifests(job, groups, facts.options, scheduler)
    gang = _gang(facts, scheduler, manifests)
    return msgspec.structs.replace(facts, gang=gang)


def _gang(facts: Facts, scheduler: GangScheduler, manifests: ReplicaManifests) -> Gang:
    job, groups, current = facts.job, facts.groups, facts.observed.pod_group
    if _is_leaving(current, groups, scheduler):
        waits: str | None = (
            f"PodGroup {job.metadata.name} is being deleted; the operator creates it again when it is gone"
        )
        return Gang(scheduler, manifests, None, may_create=False, waits=waits, is_stuck=False)
    policy = job.spec.policy.scheduling_policy or SchedulingPolicy()
    refused = facts.options.scheduling.problems(
        scheduler, job.metadata.namespace, policy, None if current is None else current.spec
    )
    if problems := "; ".join(refused):
        raise PodTemplateError(problems)
    least = None if facts.size is None else _least(facts.size, groups, policy.min_available)
    beside = _data_service(facts)
    template = manifests.template
    members, resources = _gang_size(policy, least, groups, current, facts.observed.priorities, template, beside)
    wanted = scheduler.spec(policy, members, resources)
    if current is None and scheduler.is_kubernetes:
        wanted = _with_lasting_fields(wanted, facts, manifests.template)
    admitted = not scheduler.admits or (current is not None and current.status.phase not in _NOT_ADMITTED_PHASES)
    if not admitted and _lacks_pods(groups):
        waits = not_admitted(job.metadata.name, wanted, current)
        is_stuck = current is not None and bool(current.status.phase)
    else:
        waits = not_scheduled(wanted, groups, () if beside is None else beside.members, job.status.waiting)
        is_stuck = bool(waits)
    return Gang(scheduler, manifests, wanted, admitted, waits, is_stuck)


def plan_pod_group(facts: Facts) -> Iterator[Want]:
    """Create, change or delete the PodGroup of the job's gang as the spec requires."""
    gang, job, current = facts.gang, facts.job, facts.observed.pod_group
    if gang is None or gang.wanted is None:
        return
    annotations = facts.options.scheduling.annotations_of(job)
    if current is None:
        body = gang.scheduler.body(job, owner_reference(job), gang.wanted, annotations)
        creation = Create(kind="podgroups", name=job.metadata.name, body=body, spec_field=_SCHEDULING_POLICY)
        yield Act(PhaseName.POD_GROUP, creation)
    elif change := gang.scheduler.change(job, current, gang.wanted, annotations):
        name, uid = current.metadata.name, current.metadata.uid
        patch = Patch(kind="podgroups", name=name, uid=uid, body=change, spec_field=_SCHEDULING_POLICY)
        yield Act(PhaseName.POD_GROUP, patch)


def report_gang(
    facts: Facts, waiting: Sequence[WaitingReplicas], kind: ReasonKind, reason: JobReason
) -> Iterator[Want]:
    """Send an event for each text that is new in the job's `status.waiting` among the entries of this `kind`.

    `waiting` has the entries that the new status will have. `reason` is the reason of the events.
    """
    reported = {entry.message for entry in facts.job.status.waiting if entry.reason == kind}
    for text in dict.fromkeys(entry.message for entry in waiting if entry.reason == kind):
        if text not in reported:
            yield event(reason, f"TFJob {facts.job.metadata.key}: {text}.")


def _is_leaving(current: PodGroup | None, groups: Sequence[ReplicaGroup], gang: GangScheduler) -> bool:
    """Return whether a PodGroup is being deleted and will be gone soon.

    A PodGroup of Kubernetes' own kind stays as long as a pod of the job is pending or runs.
    """
    if current is None or current.metadata.deletion_timestamp is None:
        return False
    alive = (ReplicaState.PENDING, ReplicaState.RUNNING)
    return not gang.is_kubernetes or not any(r.state in alive for group in groups for r in group.replicas)


def _with_lasting_fields(
    wanted: PodGroupSpec, facts: Facts, template: Callable[[ReplicaGroup], Template]
) -> PodGroupSpec:
    """Add the fields that can't be changed after the creation: priority class, mode of disruption and topology.

    If the job names no priority class for its PodGroup, but all pods have the same class, the PodGroup gets that class.
    Without a class, the PodGroup would have the priority 0.
    """
    classes = {str(template(group).spec.get("priorityClassName") or "") for group in facts.groups if group.size > 0}
    own = classes.pop() if len(classes) == 1 else ""
    topology = facts.job.metadata.annotations.get(GANG_TOPOLOGY_ANNOTATION)
    return msgspec.structs.replace(
        wanted,
        priority_class_name=wanted.priority_class_name or own,
        disruption_mode={"all": {}} if restarts_together(facts.job) else None,
        scheduling_constraints={"topology": [{"key": topology}]} if topology else None,
    )


def ignored_topology(facts: Facts, gang: GangScheduler) -> str:
    """Return the message that the job's PodGroup lacks the topology that the job requests; "" if nothing is missing."""
    current = facts.observed.pod_group
    wanted = facts.job.metadata.annotations.get(GANG_TOPOLOGY_ANNOTATION)
    if not wanted or current is None or current.spec.scheduling_constraints is not None:
        return ""
    why = (
        "the API server's feature gate TopologyAwareWorkloadScheduling is off, or the annotation was added after the "
        "PodGroup"
    )
    why = why if gang.is_kubernetes else f"the scheduler {gang.name} does not support {GANG_TOPOLOGY_ANNOTATION}"
    return f"PodGroup {current.metadata.name} has no topology: {why}"


def _lacks_pods(groups: Sequence[ReplicaGroup]) -> bool:
    return any(r.state in (ReplicaState.MISSING, ReplicaState.VANISHED) for group in groups for r in group.replicas)


def _gang_size(
    policy: SchedulingPolicy,
    least: int | None,
    groups: Sequence[ReplicaGroup],
    current: PodGroup | None,
    priorities: Mapping[str, int],
    template: Callable[[ReplicaGroup], Template],
    beside: _DataService | None,
) -> tuple[int, Mapping[str, str | int] | None]:
    """Return the number of pods that need room at the same time, and the sum of their requests (None: no change).

    `least` is the number of replicas that an elastic job needs (see `_least`); it is None for any other job. `beside`
    is the data service, if its pods are members of the gang. All pods of the data service count, because the replicas
    wait for the data from these pods.

    Raises PodTemplateError if a template's requests can't be read.

    If all pods have a node, and the PodGroup is large enough but not larger than requested, the result is its present
    size. With a smaller size, each replica that completes would cause a patch of the PodGroup, and every sync would
    have to read templates.
    """
    total = sum(group.size for group in groups)
    more = 0 if beside is None else len(beside.members)
    asked = policy.min_available if least is None else least
    if asked is None:
        asked = total
    todo = [(group, replica) for group in groups for replica in group.replicas if not _is_done(replica)]
    # A `minAvailable` above the number of pods stays: such a job waits, and its condition shows why.
    members = asked if asked > total else min(asked, len(todo))
    given = policy.min_resources
    is_large_enough = current is not None and members + more <= current.spec.members <= asked + more
    if current is not None and is_large_enough and not _needs_room(todo, beside):
        return current.spec.members, current.spec.min_resources if given is None else given
    if given is not None:
        return members + more, given

    def precedence(item: tuple[ReplicaGroup, Replica]) -> tuple[int, int, int]:
        group, replica = item
        return (-_priority(template(group), priorities), GANG_ORDER.index(group.type), replica.index)

    chosen = todo if members >= len(todo) else sorted(todo, key=precedence)[:members]
    counts = Counter(group.type for group, _ in chosen)
    resources = ResourceAmounts()
    for group in groups:
        if counts[group.type]:
            resources.add(pod_requests(template(group)), counts[group.type])
    if beside is not None:
        resources.add(pod_requests(beside.manifests.template), more)
    return members + more, resources.quantities()


def _least(size: Size, groups: Sequence[ReplicaGroup], min_available: int | None) -> int:
    """Return how many replicas of an elastic job need room at the same time.

    The job can train with `minReplicas` workers, so without `minAvailable`, only that number of workers needs room. A
    `minAvailable` for all wanted workers does not keep the job from training with fewer workers. A `minAvailable` above
    the number of wanted replicas stays, as in any job.
    """
    total = sum(group.size for group in groups)
    if min_available is None:
        return total - max(size.workers - size.least, 0)
    missing = max(size.wanted - size.workers, 0)
    return min_available if min_available > total + missing else min(min_available, total)


def _data_service(facts: Facts) -> _DataService | None:
    """Return the job's data service if its pods are members of the gang."""
    wanted, data_service = facts.job.spec.data_service, facts.data_service
    if wanted is None or data_service is None or not is_in_gang(facts.job):
        return None
    return _DataService(data_service.members, DataServiceManifests(facts.job, wanted, facts.options))


def _is_done(replica: Replica) -> bool:
    return replica.state in (ReplicaState.SUCCEEDED, ReplicaState.FAILED)


def _needs_room(todo: Sequence[tuple[ReplicaGroup, Replica]], beside: _DataService | None) -> bool:
    members = () if beside is None else beside.members
    return any(_must_move(replica) or not _has_node(replica.pod) for _, replica in todo) or any(
        member.state in _MOVING_MEMBERS or not _has_node(member.pod) for member in members
    )


def _must_move(replica: Replica) -> bool:
    return replica.state in (ReplicaState.RESTARTING, ReplicaState.LEAVING)


def _priority(template: Template, priorities: Mapping[str, int]) -> int:
    name = template.spec.get("priorityClassName")
    return priorities.get(name if isinstance(name, str) else "", 0)


def not_admitted(name: str, wanted: PodGroupSpec, current: PodGroup | None) -> str:
    """Return the message that the job must wait with its pods until the scheduler has admitted PodGroup `name`."""
    gang = _called(wanted)
    if current is None or not current.status.phase:
        return f"{gang} waits until Volcano processes PodGroup {name}"
    queue = current.spec.queue or wanted.queue
    where = f" to queue {queue}" if queue else ""
    unschedulable = (condition.message for condition in current.status.conditions if condition.type == "Unschedulable")
    return _with_reasons(f"{gang} waits until Volcano admits PodGroup {name}{where}", unschedulable)


def not_scheduled(
    wanted: PodGroupSpec,
    groups: Sequence[ReplicaGroup],
    data_service: Sequence[Member],
    before: Sequence[WaitingReplicas],
) -> str | None:
    """Return why too few of the gang's pods have a node.

    It returns "" if no scheduler gives a reason, None if enough pods have a node. `data_service` has the members of the
    data service, if they are members of the gang. `before` has the reasons in the job's status. A scheduler that tries
    again may for a short time report only the new attempt. Then the earlier reason stays until the scheduler gives
    another reason.
    """
    replicas = [replica for group in groups for replica in group.replicas]
    pods = [*(r.pod for r in replicas if r.state is not ReplicaState.SUCCEEDED), *(m.pod for m in data_service)]
    succeeded = len(replicas) + len(data_service) - len(pods)
    if succeeded + sum(map(_has_node, pods)) >= wanted.min_member:
        return None
    gang = _called(wanted)
    if wanted.min_member > len(replicas) + len(data_service):
        # Kubernetes' own scheduler does not try to schedule such pods, so it reports no reason.
        return (
            f"{gang} can never start: it needs more pods (schedulingPolicy.minAvailable) than the job's "
            f"{len(replicas)} replicas"
        )
    refusals = [message for pod in pods if (message := _refusal(pod)) is not None]
    if not refusals:
        return ""
    waits = f"{gang} waits for room"
    with_reasons = _with_reasons(waits, refusals)
    if with_reasons != waits:
        return with_reasons
    of_gang = (entry.message for entry in before if entry.reason == ReasonKind.GANG)
    return next((text for text in of_gang if text.startswith(f"{waits}: ")), "")


def _has_node(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.node_name)


def _refusal(pod: Pod | None) -> str | None:
    """Return why the scheduler has not found a node for a pod; None if it has found a node, or has reported nothing."""
    if pod is None or pod.spec.node_name:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return None


def _called(wanted: PodGroupSpec) -> str:
    asks = ", ".join(f"{name} {amount}" for name, amount in sorted((wanted.min_resources or {}).items()))
    pods = "1 pod" if wanted.min_member == 1 else f"{wanted.min_member} pods"
    return f"the gang of {pods}{f' ({asks})' if asks else ''}"


def _with_reasons(text: str, messages: Iterable[str]) -> str:
    reasons = sorted({reason for message in messages for reason in unschedulable_reasons(message)})[:_MAX_REASONS]
    if not reasons:
        return text
    # A semicolon ends the text about the gang in the condition.
    why = " ".join(", ".join(reasons).replace(";", ",").split())
    return f"{text}: {why if len(why) <= _MAX_REASON_LENGTH else why[: _MAX_REASON_LENGTH - 3] + '...'}"
