"""Turns whatever a caller has as a job (a dictionary, a TFJob, a file, YAML text) into the plain data to send."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.api.loading import ManifestError, load_manifests, parse_manifests
from tfoperator.api.v1.types import TFJOBS, TFJob

JobSource = Mapping[str, Any] | TFJob | str | Path
"""A manifest as a mapping, a typed TFJob, the path of a YAML or JSON file, or such text (with more than one line)."""


def job_manifest(job: JobSource, name: str | None = None) -> dict[str, Any]:
    """A manifest of one's own, which may be changed; `name` overrides the one in it.

    Raises ManifestError if a file can't be read or holds anything but one TFJob, ValueError for another kind of object.
    """
    match job:
        case TFJob():
            manifest = _from_view(job)
        case Mapping():
            manifest = dict(job)
        case _:
            manifest = _from_text(job)
    manifest = {"apiVersion": TFJOBS.api_version, "kind": TFJOBS.kind, **manifest}
    if manifest["kind"] != TFJOBS.kind:
        raise ValueError(f"a TFJob is needed, this is a {manifest['kind']}")
    metadata = {key: value for key, value in (manifest.get("metadata") or {}).items() if key != "resourceVersion"}
    if name:
        metadata["name"] = name
    if not metadata.get("name") and not metadata.get("generateName"):
        raise ValueError("the job needs a name: metadata.name, or the argument `name`")
    return {**manifest, "metadata": metadata}


def _from_view(job: TFJob) -> dict[str, Any]:
    # Only what a user writes: the rest of a job that was read is the server's.
    meta = job.metadata
    metadata = {
        "name": meta.name,
        "generateName": meta.generate_name,
        "namespace": meta.namespace,
        "labels": meta.labels,
        "annotations": meta.annotations,
    }
    spec = msgspec.json.decode(msgspec.json.encode(job.spec))
    return {"metadata": {key: value for key, value in metadata.items() if value}, "spec": spec}


def _from_text(job: str | Path) -> dict[str, Any]:
    found = parse_manifests(job) if isinstance(job, str) and "\n" in job else load_manifests(job)
    if len(found) != 1:
        raise ManifestError(found[0].source, f"holds {len(found)} objects, but one TFJob is needed")
    return found[0].obj
