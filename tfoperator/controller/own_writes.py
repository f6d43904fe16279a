"""What a sync makes of a cache that has not yet shown our own last writes: it neither repeats nor misreads them.

The expectations know which pods and services were asked for, or asked to go, and have not been seen so. Pure, but for
the reading of those and of the clock.
"""

from __future__ import annotations

import msgspec

from tfoperator.api import names
from tfoperator.api.v1.types import TFJob
from tfoperator.clock import Clock
from tfoperator.controller.actions import Plan
from tfoperator.controller.children import ChildKind, expectation_key
from tfoperator.expectations import Expectations
from tfoperator.kube.objects import Pod

__all__ = ["mark_let_go", "without_unseen"]


def mark_let_go(job: TFJob, pods: tuple[Pod, ...], expectations: Expectations, clock: Clock) -> tuple[Pod, ...]:
    """The pods, those that we have deleted marked so: the cache may show them alive for a while.

    Taken for alive, a pod of a job that was suspended and resumed at once would count as started again, and its
    end, once it is seen, as a loss.
    """
    uid = job.metadata.uid
    if expectations.owner_satisfied(uid):
        return pods
    now = clock.now()

    def marked(pod: Pod) -> Pod:
        meta = pod.metadata
        key = expectation_key(uid, meta.labels.get(names.LABEL_REPLICA_TYPE, ""), "pods")
        pending = expectations.pending(key)
        if meta.deletion_timestamp is not None or pending is None or meta.uid not in pending[1]:
            return pod
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(meta, deletion_timestamp=now))

    return tuple(marked(pod) for pod in pods)


def without_unseen(job: TFJob, plan: Plan, expectations: Expectations) -> Plan:
    """The plan without what would act on a cache that has not yet shown our own last writes."""
    uid = job.metadata.uid
    if plan.delete_job or expectations.owner_satisfied(uid):
        return plan

    def trusted(replica_type: str | None, kind: ChildKind) -> bool:
        return expectations.satisfied(expectation_key(uid, replica_type, kind))

    create_pods = tuple(one for one in plan.create_pods if trusted(one.replica_type, "pods"))
    if plan.absent and len(create_pods) < len(plan.create_pods):
        # A pod that is not seen yet must not be counted as lost: wait for the cache with everything.
        return Plan(status=job.status)
    pod_group = trusted(None, "podgroups")
    return msgspec.structs.replace(
        plan,
        delete_pod_group=plan.delete_pod_group if pod_group else None,
        create_pod_group=plan.create_pod_group if pod_group else None,
        create_pods=create_pods,
        delete_pods=tuple(one for one in plan.delete_pods if trusted(one.replica_type, "pods")),
        create_services=tuple(one for one in plan.create_services if trusted(one.replica_type, "services")),
        delete_services=tuple(one for one in plan.delete_services if trusted(one.replica_type, "services")),
        board=tuple(one for one in plan.board if trusted(None, one.kind)),
    )
