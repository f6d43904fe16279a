"""What is said of a replica that is started again: how it ended, and how often that was. Pure."""

from __future__ import annotations

import msgspec

from tfoperator.api.names import ANNOTATION_RESTARTS, annotated_count
from tfoperator.kube.objects import Pod


class KnownRestarts(msgspec.Struct, frozen=True):
    """What has been seen of one replica: how often it was started again, and how it ended last, if it did."""

    count: int = 0
    exit_code: int | None = None


def after(known: KnownRestarts, pod: Pod) -> tuple[KnownRestarts, str]:
    """What is known once this state of its pod has been seen, and a sentence about a new restart; "" without one."""
    statuses = pod.status.container_statuses
    before = annotated_count(pod.metadata.annotations, ANNOTATION_RESTARTS)
    count = before + sum(status.restart_count for status in statuses)
    ends = [
        state.terminated.exit_code
        for status in statuses
        for state in (status.last_state, status.state)
        if state is not None and state.terminated is not None
    ]
    failed = [code for code in ends if code] or ends
    exit_code = failed[-1] if failed else known.exit_code
    if count <= known.count:
        return KnownRestarts(known.count, exit_code), ""
    how = "" if exit_code is None else f"exited with {exit_code}, "
    return KnownRestarts(count, None if not statuses else exit_code), f"{how}started again ({count})"
