"""A job as YAML, as the API server has it."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.verbs import ApiClient

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def job_yaml(client: ApiClient, namespace: str, name: str) -> dict[str, str]:
    """The job without what only machines read. Raises KubeError."""
    job = client.get(TFJOBS, namespace, name, _decode)
    metadata = job.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(_LAST_APPLIED, None)
    return {"yaml": yaml.safe_dump(job, sort_keys=False, allow_unicode=True)}


_decode = msgspec.json.Decoder(dict[str, Any]).decode
