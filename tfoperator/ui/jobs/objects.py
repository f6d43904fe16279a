"""The page's views of jobs and pods: those of the operator, with the fields that only users read.

They are separate from the operator's, whose caches must stay small.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.kube.objects import HasMetadata, Pod, PodSpec


class ContainerResources(msgspec.Struct, frozen=True, gc=False):
    """Quantities by the resource's name, unparsed."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class SeenContainer(msgspec.Struct, frozen=True, gc=False):
    """A container's spec."""

    name: str = ""
    image: str = ""
    resources: ContainerResources | None = None


class SeenPodSpec(PodSpec, frozen=True, gc=False, rename="camel"):
    """A pod's spec."""

    containers: tuple[SeenContainer, ...] = ()


class SeenPod(Pod, frozen=True, gc=False):
    """A pod with images and limits."""

    spec: SeenPodSpec = msgspec.field(default_factory=SeenPodSpec)


decode_pod = msgspec.json.Decoder(SeenPod).decode
"""Decodes one pod. Raises msgspec.DecodeError."""


class SeenJob(HasMetadata, frozen=True, kw_only=True):
    """A job, and its `status.progress` as plain data: empty without reports."""

    job: TFJob
    progress: dict[str, Any]


class _ProgressStatus(msgspec.Struct, frozen=True):
    progress: dict[str, Any] | None = None


class _WithProgress(msgspec.Struct, frozen=True):
    status: _ProgressStatus | None = None


_decode_progress = msgspec.json.Decoder(_WithProgress).decode


def decode_job(data: bytes) -> SeenJob:
    """Decode a TFJob. Raises msgspec.DecodeError as `decode_tfjob` does."""
    job = decode_tfjob(data)
    try:
        status = _decode_progress(data).status
    except msgspec.ValidationError:
        status = None
    return SeenJob(metadata=job.metadata, job=job, progress=(status.progress if status else None) or {})
