"""The archive's logs of a job, for the page: the list of runs, and the text of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tfoperator.api.names import replica_name
from tfoperator.logs.archive import ArchivedContainer, archived_pods, read_archived


def runs(root: str | os.PathLike[str], namespace: str, job: str, uid: str | None) -> list[dict[str, Any]]:
    """Return every run that has a log, the oldest first. Raises OSError."""
    found = []
    for record in archived_pods(root, namespace, job, uid):
        for container in record.containers:
            about = {
                "replica": replica_name(record.as_pod()),
                "pod": record.pod,
                "podUid": record.pod_uid,
                "container": container.name,
            }
            if container.previous_log:
                found.append(about | _previous(container))
            if container.log:
                found.append(about | _last(container))
    return found


def log(
    root: str | os.PathLike[str], namespace: str, job: str, wanted: Mapping[str, str], tail_lines: int
) -> dict[str, Any]:
    """Return the last lines of a run's log; `text` is null if there is none (any more). Raises OSError.

    `wanted` names the run: `uid` of the job, `pod` (its UID), `container`, and whether the `previous` one.
    """
    previous = wanted.get("previous") == "true"
    for record in archived_pods(root, namespace, job, wanted.get("uid") or None):
        if record.pod_uid != wanted.get("pod"):
            continue
        for container in record.containers:
            if container.name == wanted.get("container"):
                return {"text": read_archived(record, container, previous=previous, tail_lines=tail_lines)}
    return {"text": None}


def _previous(container: ArchivedContainer) -> dict[str, Any]:
    finished = container.previous_finished
    return {
        "previous": True,
        "restarts": max(container.restarts - 1, 0),
        "exitCode": container.previous_exit_code,
        "finished": finished.timestamp() if finished is not None else None,
    }


def _last(container: ArchivedContainer) -> dict[str, Any]:
    return {
        "previous": False,
        "restarts": container.restarts,
        "exitCode": container.exit_code,
        "finished": container.finished.timestamp() if container.finished is not None else None,
        "size": container.size,
        "dropped": container.dropped,
        "problem": container.problem,
    }
