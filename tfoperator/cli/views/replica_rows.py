"""A pod in words: the rows of the table of replicas. Pure."""

from __future__ import annotations

import msgspec

from tfoperator.api.names import ANNOTATION_STOPPED, replica_name
from tfoperator.kube.objects import ContainerStatus, Pod


class ReplicaRow(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    state: str
    ready: bool
    restarts: int
    detail: str = ""


def replica_row(pod: Pod) -> ReplicaRow:
    """A pod in words: its state, and why it is in no better one."""
    statuses = pod.status.container_statuses
    state, detail = pod.status.phase or "Pending", ""
    for status in (*pod.status.init_container_statuses, *statuses):
        state, detail = _worse(status, state, detail)
    # Its end says nothing about its program, so it is no failure. Anybody may annotate a pod that nobody has stopped.
    by_job = pod.metadata.annotations.get(ANNOTATION_STOPPED) if pod.spec.active_deadline_seconds is not None else None
    if by_job and state != "Succeeded":
        state, detail = "Stopped" if pod.status.phase == "Failed" else "Stopping", by_job
    elif pod.metadata.deletion_timestamp is not None and state not in ("Succeeded", "Failed"):
        state, detail = "Stopping", ""
    return ReplicaRow(
        name=replica_name(pod),
        state=state,
        ready=bool(statuses) and all(status.ready for status in statuses),
        restarts=sum(status.restart_count for status in statuses),
        detail=detail,
    )


def _worse(status: ContainerStatus, state: str, detail: str) -> tuple[str, str]:
    now = status.state
    if now is not None and now.waiting is not None and now.waiting.reason not in ("", "ContainerCreating"):
        return now.waiting.reason, now.waiting.message
    if now is not None and now.terminated is not None and now.terminated.exit_code != 0:
        return state, f"exit code {now.terminated.exit_code}"
    if not detail and status.last_state is not None and status.last_state.terminated is not None:
        return state, f"last exit code {status.last_state.terminated.exit_code}"
    return state, detail
