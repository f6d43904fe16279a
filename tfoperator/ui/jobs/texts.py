"""The two texts that the page shows of a job: the job itself as YAML, and the report of `tfoperator.report`."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import yaml

from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.verbs import ApiClient
from tfoperator.report.text import report_lines
from tfoperator.sdk import TFJobClient


def job_report(client: Client, archive_dir: str | os.PathLike[str] | None, namespace: str, name: str) -> dict[str, str]:
    """Return the report as text, from the logs of the job's pods: slow. Raises TFJobError, KubeError, OSError."""
    report = TFJobClient(client=client, archive_dir=archive_dir).get_job_report(name, namespace)
    return {"report": "\n".join(report_lines(report))}


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def job_yaml(client: ApiClient, namespace: str, name: str) -> dict[str, str]:
    """Return the job without the fields for machines. Raises KubeError."""
    job = client.get(TFJOBS, namespace, name, _decode)
    metadata = job.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(_LAST_APPLIED, None)
    return {"yaml": yaml.safe_dump(job, sort_keys=False, allow_unicode=True)}


_decode = msgspec.json.Decoder(dict[str, Any]).decode
