"""A TFJob as notebooks show it: a table. Pure.

The caller passes parts of a job, so this module does not import `TFJob`, which uses this module to show itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfoperator.api.v1.state import in_short
from tfoperator.api.v1.status import ReplicaStatus, TFJobStatus
from tfoperator.base.html_table import html_table, html_text
from tfoperator.kube.views.objects import ObjectMeta


def job_html(metadata: ObjectMeta, wanted: Mapping[str, int], status: TFJobStatus) -> str:
    """Return a job's replicas and conditions as HTML; `wanted` is the desired number of replicas by type."""
    nothing = ReplicaStatus()
    replicas = [
        (kind, str(count), str(counts.active), str(counts.succeeded), str(counts.failed))
        for kind, count in wanted.items()
        for counts in [status.replica_statuses.get(kind) or nothing]
    ]
    tables = html_table(("replicas", "wanted", "active", "succeeded", "failed"), replicas)
    conditions = [
        (c.type, c.status, c.reason, c.message, str(c.last_transition_time or ""))
        for c in (*status.operator_conditions, *status.conditions)
    ]
    if conditions:
        tables += html_table(("condition", "status", "reason", "message", "since"), conditions)
    title = html_text(f"TFJob {metadata.namespace}/{metadata.name}")
    return f"<div><b>{title}</b> {html_text(in_short(metadata, status))}{tables}</div>"
