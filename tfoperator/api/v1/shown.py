"""A TFJob as Python and notebooks show it: a line, or a table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfoperator.api.v1.status import ReplicaStatus, TFJobStatus
from tfoperator.base.html_table import html_table, html_text

if TYPE_CHECKING:
    from tfoperator.api.v1.types import TFJob


def in_short(job: TFJob) -> str:
    """Return `Running, 2/3 ready, 1 restart`; "" for a job without a status."""
    status = job.status
    restarts = restarts_text(status) if status.restarts else ""
    return ", ".join(filter(None, (status.phase, status.ready and f"{status.ready} ready", restarts)))


def restarts_text(status: TFJobStatus) -> str:
    """Return `3 restarts, 2 of them after disruptions`."""
    restarts = f"{status.restarts} restart{'s' if status.restarts != 1 else ''}"
    if not status.disruptions:
        return restarts
    if status.disruptions == status.restarts:
        return f"{restarts} after {'a disruption' if status.restarts == 1 else 'disruptions'}"
    disrupted = "a disruption" if status.disruptions == 1 else "disruptions"
    return f"{restarts}, {status.disruptions} of them after {disrupted}"


def job_html(job: TFJob) -> str:
    """Return its replicas and conditions as HTML."""
    status, nothing = job.status, ReplicaStatus()
    replicas = [
        (kind, str(spec.desired), str(counts.active), str(counts.succeeded), str(counts.failed))
        for kind, spec in job.spec.tf_replica_specs.items()
        if spec is not None
        for counts in [status.replica_statuses.get(kind) or nothing]
    ]
    tables = html_table(("replicas", "wanted", "active", "succeeded", "failed"), replicas)
    conditions = [
        (c.type, c.status, c.reason, c.message, str(c.last_transition_time or ""))
        for c in (*status.operator_conditions, *status.conditions)
    ]
    if conditions:
        tables += html_table(("condition", "status", "reason", "message", "since"), conditions)
    title = html_text(f"TFJob {job.metadata.namespace}/{job.metadata.name}")
    return f"<div><b>{title}</b> {html_text(in_short(job))}{tables}</div>"
