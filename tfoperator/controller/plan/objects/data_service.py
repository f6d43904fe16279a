"""Handles `spec.dataService`: its members (a dispatcher and data workers) run from the job's start to its end. Pure.

The end or failure of a member never ends the job. The member's kubelet restarts the program, with a growing delay. A
member whose pod has gone, or has the phase Failed, gets a new pod of the same name. Each restart of the program and
each new pod counts as one restart.

Restarts are counted like the restarts of replicas: a pod records the member's number of restarts before this pod, and
the status has the largest number that was observed for each member. Before a failed pod is deleted, the status is
written. If a member has run and has no pod now, its pod was deleted or evicted. The status write that counts this loss
also removes the member from `startedIndexes` or `dispatcherStarted`, so the loss counts once.

The members are created when replicas may be created: after the job's queue has given quota, and after the gang is
admitted. If the template or the working directory changes, this applies only to pods that are created later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from tfoperator.api.fields.limits import MAX_DATA_WORKERS, MAX_NAME_LENGTH
from tfoperator.api.replicas.data_service import (
    DATA_SERVICE_POD_SET,
    DISPATCHER,
    DataServiceMember,
    DataServiceRole,
    member_of,
    member_suffix,
    started_members,
)
from tfoperator.api.replicas.names import MAX_RESTARTS
from tfoperator.api.replicas.replica_pods import ENDED_PHASES
from tfoperator.api.v1.choices import Network
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.parts.data_service import DataService, DataServiceStatus
from tfoperator.api.v1.reasons import JobReason
from tfoperator.api.v1.status import format_indexes
from tfoperator.api.v1.types import TFJob
from tfoperator.api.waiting import look_again, why_it_waits
from tfoperator.base.clock import epoch_seconds
from tfoperator.controller.plan.facts.facts import DataServiceFacts, DataServiceState, Facts, Member
from tfoperator.controller.plan.facts.proposal import (
    Act,
    LookAgain,
    RemoveCondition,
    Replace,
    StatusPart,
    Want,
    delete,
    deletion,
    event,
    observation,
)
from tfoperator.controller.plan.pod_ends.restart import restart_wait, restarts_before, restarts_in_place
from tfoperator.controller.plan.values.actions import Create, DeleteReason, PhaseName
from tfoperator.controller.plan.values.observed import Observed, PlanOptions
from tfoperator.controller.pods.data_service import DATA_SERVICE_FIELD, DataServiceManifests, data_service_url
from tfoperator.kube.views.objects import Pod

_TEMPLATE_FIELD = f"{DATA_SERVICE_FIELD}.template"
_MAX_NAMES = 3
_NO_STATUS = DataServiceStatus()
_WITHOUT_POD = (DataServiceState.MISSING, DataServiceState.TAKEN)


def see_data_service(observed: Observed, now: datetime, options: PlanOptions) -> DataServiceFacts:
    """Return the members of the job's data service, each with at most one pod, and the surplus pods.

    Surplus pods are second pods of a member, and pods of the data service that belong to no wanted member.
    """
    job = observed.job
    of_member: defaultdict[DataServiceMember, list[Pod]] = defaultdict(list)
    for pod in observed.pods:
        if (member := member_of(pod.metadata.labels)) is not None:
            of_member[member].append(pod)
    status = job.status.data_service or _NO_STATUS
    started = started_members(status)
    members, surplus = [], []
    for member in _wanted(job.spec.data_service):
        pods = sorted(of_member.pop(member, ()), key=_precedence)
        recorded = min(max(status.restart_counts.get(member_suffix(member), 0), 0), MAX_RESTARTS)
        members.append(_member(member, pods, recorded, now, options, was_started=member in started))
        surplus += pods[1:]
    surplus += (pod for pods in of_member.values() for pod in pods)
    return DataServiceFacts(tuple(members), tuple(surplus))


def plan_data_service(facts: Facts) -> Iterator[Want]:
    """Create, delete and restart parts of an active job's data service as its spec requires, and report its state."""
    data_service, job, wanted = facts.data_service, facts.job, facts.job.spec.data_service
    if data_service is None:
        return
    for pod in data_service.surplus:
        yield from delete("pods", pod, DeleteReason.SCALE_DOWN if wanted is not None else DeleteReason.NOT_WANTED)
    yield from _unwanted_services(facts, data_service)
    if wanted is None:
        yield StatusPart({"data_service": None})
        yield RemoveCondition(ConditionType.DATA_SERVICE_READY)
        return
    gang = facts.gang
    manifests = DataServiceManifests(job, wanted, facts.options, None if gang is None else gang.scheduler)
    may_create = (gang is None or gang.may_create) and _has_quota(facts, data_service)
    services = {member_of(service.metadata.labels) for service in facts.observed.services}
    per_job = facts.options.network is Network.PER_JOB
    for member in data_service.members:
        has_service = per_job or member.member in services
        yield from _bring(manifests, member, may_create=may_create, has_service=has_service, replace=gang is None)
        if (
            member.pod is not None
            and member.pod.spec.node_name
            and (left := look_again(member.pod, facts.now)) is not None
        ):
            yield LookAgain(left)
    yield from _report(facts, data_service, data_service_url(job, facts.options))


def rest_data_service(facts: Facts) -> Iterator[Want]:
    """Report the data service of a job that ends or is suspended: keep only its address and its restart counts."""
    if facts.data_service is not None and facts.job.spec.data_service is not None:
        counts = _counts(facts.data_service, facts.job)
        address = (facts.job.status.data_service or _NO_STATUS).address
        status = DataServiceStatus(address=address, restarts=sum(counts.values()), restart_counts=counts)
        yield StatusPart({"data_service": status})


def absent_members(seen: DataServiceFacts, job: TFJob, options: PlanOptions) -> list[str]:
    """Return the names of the data service's pods that are gone although the operator did not delete them.

    The caller must look these pods up in the API server, because a cache may be stale.
    """
    return [
        options.naming.data_service(job, member.member)
        for member in seen.members
        if member.state is DataServiceState.TAKEN
    ]


def long_members(job: TFJob, options: PlanOptions) -> list[str]:
    """Return the problem with a job's name if the name of a pod of its data service is too long.

    This is possible only if the names of pods contain a part of the job's UID.
    """
    longest = max((options.naming.data_service(job, member) for member in _wanted(job.spec.data_service)), key=len)
    if len(longest) <= MAX_NAME_LENGTH:
        return []
    return [
        f'metadata.name: is too long: "{longest}", the name of a pod, must have at most {MAX_NAME_LENGTH} characters'
    ]


def _wanted(wanted: DataService | None) -> list[DataServiceMember]:
    if wanted is None:
        return []
    size = min(max(wanted.workers, 0), MAX_DATA_WORKERS)
    return [DISPATCHER, *((DataServiceRole.WORKER, index) for index in range(size))]


def _member(
    member: DataServiceMember,
    pods: Sequence[Pod],
    recorded: int,
    now: datetime,
    options: PlanOptions,
    *,
    was_started: bool,
) -> Member:
    """Return a member with the first of its `pods`; its other pods are deleted.

    `recorded` is the member's number of restarts in the job's status. `was_started` means that the member has run,
    according to this status.
    """
    if not pods:
        if was_started:
            return Member(member, None, DataServiceState.TAKEN, min(recorded + 1, MAX_RESTARTS), recorded)
        return Member(member, None, DataServiceState.MISSING, recorded, recorded)
    pod = pods[0]
    so_far = min(restarts_before(pod) + restarts_in_place(pod), MAX_RESTARTS)
    if pod.metadata.deletion_timestamp is not None:
        lost = min(so_far + 1, MAX_RESTARTS) if was_started else 0
        return Member(member, pod, DataServiceState.LEAVING, max(recorded, so_far, lost), recorded)
    phase = pod.status.phase
    if phase in (*ENDED_PHASES, "Unknown"):
        again = min(so_far + 1, MAX_RESTARTS)
        wait = restart_wait(pod, again, now, options)
        return Member(member, pod, DataServiceState.FAILED, max(recorded, again), recorded, wait=wait)
    runs = phase == "Running"
    state = DataServiceState.RUNNING if runs else DataServiceState.PENDING
    ready = runs and all(container.ready for container in pod.status.container_statuses)
    return Member(member, pod, state, max(recorded, so_far), recorded, is_started=runs or was_started, ready=ready)


def _precedence(pod: Pod) -> tuple[bool, bool, float, str]:
    """Return the sort key for the pods of a member. The first pod is kept.

    Pods that are not being deleted come first. Among these, pods that have not ended come first, and among those the
    oldest.
    """
    meta = pod.metadata
    has_ended = pod.status.phase in ENDED_PHASES
    return (meta.deletion_timestamp is not None, has_ended, epoch_seconds(meta.creation_timestamp), meta.name)


def _has_quota(facts: Facts, data_service: DataServiceFacts) -> bool:
    """Return whether the job's quota is enough for the data service: for its members and its surplus pods."""
    gate = facts.observed.gate
    if gate is None:
        return True
    needed = len(data_service.members) + sum(pod.status.phase not in ENDED_PHASES for pod in data_service.surplus)
    return needed <= gate.quota.get(DATA_SERVICE_POD_SET, needed)


def _bring(
    manifests: DataServiceManifests, member: Member, *, may_create: bool, has_service: bool, replace: bool
) -> Iterator[Want]:
    """Create the service and the pod of a member if they are missing; delete a pod that has failed.

    With `replace`, the same plan deletes a failed pod and creates the next, if the name is free after the deletion.
    """
    if may_create and not has_service:
        body = manifests.service(member.member)
        yield Act(PhaseName.REPLICAS, _creation("services", member, body))
    if member.state in _WITHOUT_POD and may_create:
        yield Act(PhaseName.REPLICAS, _creation("pods", member, manifests.pod(member.member, member.restarts)))
    elif member.state is DataServiceState.FAILED and member.pod is not None:
        pod = member.pod
        if member.wait > 0:
            yield LookAgain(member.wait)
        elif pod.status.phase == "Unknown":
            yield from delete("pods", pod, DeleteReason.NODE_LOST)
        elif may_create and replace and has_service and _frees_its_name(manifests, member, pod):
            creation = _creation("pods", member, manifests.pod(member.member, member.restarts))
            yield Replace(deletion("pods", pod, DeleteReason.RESTART), creation)
        else:
            yield from delete("pods", pod, DeleteReason.RESTART)


def _frees_its_name(manifests: DataServiceManifests, member: Member, pod: Pod) -> bool:
    """Return whether the name of the member's next pod is free as soon as `pod` is deleted.

    The result is False if `pod` has finalizers (then it stays for some time), or another name (then its deletion does
    not free the name).
    """
    return not pod.metadata.finalizers and pod.metadata.name == manifests.name(member.member)


def _creation(kind: str, member: Member, body: Mapping[str, object]) -> Create:
    meta = body["metadata"]
    assert isinstance(meta, dict)
    return Create(
        kind="pods" if kind == "pods" else "services",
        name=meta["name"],
        body=dict(body),
        spec_field=_TEMPLATE_FIELD,
        replacement=member.restarts > 0,
    )


def _unwanted_services(facts: Facts, data_service: DataServiceFacts) -> Iterator[Act]:
    """Delete the services of members that are not wanted.

    If the whole job has one service, delete the services of all members.
    """
    wanted = set() if facts.options.network is Network.PER_JOB else {member.member for member in data_service.members}
    for service in facts.observed.services:
        member = member_of(service.metadata.labels)
        if member is not None and member not in wanted:
            yield from delete("services", service, DeleteReason.SCALE_DOWN)


def _counts(data_service: DataServiceFacts, job: TFJob) -> dict[str, int]:
    """Return the restarts by member.

    Restarts of members that are no longer wanted are kept, because they have happened.
    """
    before = (job.status.data_service or _NO_STATUS).restart_counts
    now = {member_suffix(member.member): member.restarts for member in data_service.members}
    return {name: count for name, count in sorted({**before, **now}.items()) if count > 0}


def _report(facts: Facts, data_service: DataServiceFacts, address: str) -> Iterator[Want]:
    """Report the state of the data service in the status and in its condition, and report restarts in events."""
    counts, members = _counts(data_service, facts.job), data_service.members
    ready = sum(member.ready for member in members)
    message = _why_not_all(facts, data_service)
    yield StatusPart(
        {
            "data_service": DataServiceStatus(
                address=address,
                ready=f"{ready}/{len(members)}",
                restarts=sum(counts.values()),
                restart_counts=counts,
                dispatcher_started=any(member.is_started and member.member == DISPATCHER for member in members),
                started_indexes=format_indexes(
                    member.member[1] for member in members if member.is_started and member.member != DISPATCHER
                ),
                message=message,
            )
        }
    )
    text = f"{ready} of the {len(members)} pods of the data service are ready"
    if ready == len(members):
        yield observation(ConditionType.DATA_SERVICE_READY, f"{text}.", holds=True)
    elif message or facts.condition(ConditionType.DATA_SERVICE_READY) is not None:
        detail = f"{text}: {message}." if message else f"{text}."
        yield observation(ConditionType.DATA_SERVICE_READY, detail, holds=False)
    if restarted := [member for member in members if member.restarts > member.recorded]:
        yield event(JobReason.DATA_SERVICE_RESTARTED, _restarted(restarted))


def _restarted(members: Sequence[Member]) -> str:
    named = ", ".join(f"{member_suffix(member.member)} ({_cause(member)})" for member in members[:_MAX_NAMES])
    more = f" and {len(members) - _MAX_NAMES} more" if len(members) > _MAX_NAMES else ""
    return f"The operator restarts pods of the data service: {named}{more}. The job goes on."


def _cause(member: Member) -> str:
    """Return why a member is started again."""
    if member.pod is None:
        return "its pod is gone"
    if member.state is DataServiceState.LEAVING:
        return "its pod is being deleted"
    for container in member.pod.status.container_statuses:
        last = container.state.terminated if container.state is not None else None
        if last is None and container.last_state is not None:
            last = container.last_state.terminated
        if last is not None:
            return f"exit code {last.exit_code}"
    return member.pod.status.reason or "its pod has failed"


def _why_not_all(facts: Facts, data_service: DataServiceFacts) -> str:
    """Return why members do not run; the order and the texts change only when the reasons change."""
    refusal = None if facts.observed.not_created is None else facts.observed.not_created.get("pods")
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for member in data_service.members:
        if member.ready:
            continue
        reason = why_it_waits(member.pod, refusal if member.state in _WITHOUT_POD else None, facts.now)
        if reason is not None:
            reasons[str(reason)].append(member_suffix(member.member))
    parts = []
    for reason_text, names in reasons.items():
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        parts.append(f"{', '.join(names[:_MAX_NAMES])}{more}: {reason_text}")
    return "; ".join(parts)
