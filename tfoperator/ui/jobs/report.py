"""Why a job failed, is started again or does not go on, in the words of `tfoperator report`."""

from __future__ import annotations

import os

from tfoperator.kube.client import Client
from tfoperator.report import report_lines
from tfoperator.sdk import TFJobClient


def job_report(client: Client, archive_dir: str | os.PathLike[str] | None, namespace: str, name: str) -> dict[str, str]:
    """The report as text, from the logs of the job's pods: not at once. Raises TFJobError, KubeError, OSError."""
    report = TFJobClient(client=client, archive_dir=archive_dir).get_job_report(name, namespace)
    return {"report": "\n".join(report_lines(report))}
