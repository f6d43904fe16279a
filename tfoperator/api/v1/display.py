"""A TFJob as a notebook shows it: a table instead of a struct of some hundred members. Pure."""

from __future__ import annotations

from tfoperator.api.v1.types import ReplicaStatus, TFJob
from tfoperator.base.html_table import html_table, html_text

_NOTHING = ReplicaStatus()


def job_html(job: TFJob) -> str:
    """Name, phase, replicas and conditions. Whatever strangers have written is text in it, never markup."""
    status = job.status
    title = f"TFJob {job.metadata.namespace}/{job.metadata.name}"
    state = ", ".join(filter(None, (status.phase, status.ready and f"{status.ready} ready", _times(status.restarts))))
    replicas = [
        (kind, str(spec.desired), str(counts.active), str(counts.succeeded), str(counts.failed))
        for kind, spec in job.spec.tf_replica_specs.items()
        if spec is not None
        for counts in [status.replica_statuses.get(kind) or _NOTHING]
    ]
    conditions = [
        (one.type, one.status, one.reason, one.message, str(one.last_transition_time or ""))
        for one in status.conditions
    ]
    tables = html_table(("replicas", "wanted", "active", "succeeded", "failed"), replicas)
    if conditions:
        tables += html_table(("condition", "status", "reason", "message", "since"), conditions)
    return f"<div><b>{html_text(title)}</b> {html_text(state)}{tables}</div>"


def _times(restarts: int) -> str:
    return f"{restarts} restart{'s' if restarts != 1 else ''}" if restarts else ""
