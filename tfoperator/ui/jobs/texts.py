"""Texts that the page requests when the user opens a tab: a job's YAML, its report, and its logs in the log archive.

All functions of this module block.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import yaml

from tfoperator.api.replicas.names import replica_name
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.verbs import ApiClient, decode_plain
from tfoperator.logs.archive.reader import archived_pods, read_archived
from tfoperator.report.text import report_lines
from tfoperator.sdk import TFJobClient

if TYPE_CHECKING:
    from tfoperator.local.run.recorded_run import RecordedRun


def job_report(
    client: Client,
    archive_dir: str | os.PathLike[str] | None,
    namespace: str,
    name: str,
    run: RecordedRun | None = None,
) -> dict[str, str]:
    """Return the report on a job (`tfoperator report`) as text.

    The function reads the logs of the job's pods, which can take some seconds. If `run` is a recorded run that has
    ended, the function returns the report in the records of the run. Raises TFJobError or KubeError if the job or its
    pods can't be read, and OSError if the archive can't be read.
    """
    report = TFJobClient(client=client, archive_dir=archive_dir, run=run).get_job_report(name, namespace)
    return {"report": "\n".join(report_lines(report))}


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def job_yaml(client: ApiClient, namespace: str, name: str) -> dict[str, str]:
    """Return the job as YAML, without `managedFields` and kubectl's `last-applied-configuration`.

    Raises KubeError if the job can't be read.
    """
    job = client.get(TFJOBS, namespace, name, decode_plain)
    job["metadata"].pop("managedFields", None)
    job["metadata"].get("annotations", {}).pop(_LAST_APPLIED, None)
    return {"yaml": yaml.safe_dump(job, sort_keys=False, allow_unicode=True)}


def archived_runs(root: str | os.PathLike[str], namespace: str, job: str, uid: str | None) -> list[dict[str, Any]]:
    """Return all runs of a job's containers in the log archive. For each container, the oldest run comes first.

    Several jobs can have had the same name. With `uid`, return only the runs of the job with this UID. Raises OSError
    if the archive can't be read.
    """
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


def archived_log(
    root: str | os.PathLike[str], namespace: str, job: str, wanted: Mapping[str, str], tail_lines: int
) -> dict[str, Any]:
    """Return `{"text": ...}` with the last lines of a run's log. The text is None if the archive has no such log.

    `wanted` identifies the run: `uid` is the UID of the job, `pod` is the UID of the pod, and `log` is the field `log`
    of the run in the result of `archived_runs`. Raises OSError if the archive can't be read.
    """
    for record in archived_pods(root, namespace, job, wanted.get("uid") or None):
        for run in (run for container in record.containers for run in container.runs):
            if (record.pod_uid, run.log) == (wanted.get("pod"), wanted.get("log")):
                return {"text": read_archived(record, run, tail_lines=tail_lines)}
    return {"text": None}
