"""Reports restarts in place that nobody saw begin, and that there are none on this server."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.api.v1.reasons import JobReason
from tfoperator.controller.plan.draft import Draft
from tfoperator.controller.plan.held_resources import program_of, termination_of
from tfoperator.controller.plan.replicas import ENDED_STATES, Replica, ReplicaGroup, restarting_because

_MAX_NAMES = 3


def report_returns(draft: Draft, groups: Sequence[ReplicaGroup], *, ended: bool = False) -> None:
    """Report restarts that were over when they were first seen, as if they had been seen to begin.

    Where the job has `ended` now, no restart follows on the exit of a replica that runs.
    """
    returned = [(group, replica) for group in groups for replica in group.returned]
    restarted = [(group, one) for group, one in returned if not ended or one.state in ENDED_STATES]
    if restarted:
        draft.event(JobReason.RESTARTING, restarting_because(draft.job.metadata.name, restarted))
    for _, replica in returned:
        last = termination_of(program_of(replica.pod), last=True)
        if replica.pod is not None and last is not None:
            meta = replica.pod.metadata
            message = f"Pod: {meta.namespace}.{meta.name} exited with code {last.exit_code}"
            draft.event(JobReason.EXITED_WITH_CODE, message)


def report_old_server(draft: Draft) -> None:
    """Report that no kubelet will restart a container."""
    _report_recreation(draft, "this API server is older than Kubernetes 1.35")


def report_old_kubelets(draft: Draft, unaided: Sequence[Replica]) -> None:
    """Report that kubelets have not restarted containers that they should have."""
    names = ", ".join(one.pod.metadata.name for one in unaided[:_MAX_NAMES] if one.pod is not None)
    _report_recreation(draft, f"the kubelets of {names} don't follow rules of exit codes (Kubernetes 1.35 does)")


def _report_recreation(draft: Draft, why: str) -> None:
    draft.event(JobReason.RESTARTS_BY_RECREATION, f"spec.runPolicy.restartMode: {why}, so pods are made again instead")
