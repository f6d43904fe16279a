"""The archive's logs of a job, for the page: the list of runs, and the text of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tfoperator.api.names import replica_name
from tfoperator.logs.archive import archived_pods, read_archived


def runs(root: str | os.PathLike[str], namespace: str, job: str, uid: str | None) -> list[dict[str, Any]]:
    """Return every run that has a log, the oldest of each pod first. Raises OSError."""
    return [
        {
            "replica": replica_name(record.as_pod()),
            "pod": record.pod,
            "podUid": record.pod_uid,
            "restarts": run.restarts,
            "exitCode": run.exit_code,
            "finished": run.finished.timestamp() if run.finished is not None else None,
            "log": run.log,
            "size": run.size,
            "dropped": run.dropped,
            "problem": run.problem,
        }
        for record in archived_pods(root, namespace, job, uid)
        for container in record.containers
        for run in container.runs
    ]


def log(
    root: str | os.PathLike[str], namespace: str, job: str, wanted: Mapping[str, str], tail_lines: int
) -> dict[str, Any]:
    """Return the last lines of a run's log; `text` is null if there is none (any more). Raises OSError.

    `wanted` names the run: `uid` of the job, `pod` (its UID), and `log` as `runs` has it.
    """
    for record in archived_pods(root, namespace, job, wanted.get("uid") or None):
        for run in (run for container in record.containers for run in container.runs):
            if (record.pod_uid, run.log) == (wanted.get("pod"), wanted.get("log")):
                return {"text": read_archived(record, run, tail_lines=tail_lines)}
    return {"text": None}
