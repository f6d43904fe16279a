"""A pod as the node agent and its runtimes read it."""

from __future__ import annotations

import msgspec

from tfoperator.kube.objects import HasMetadata, PodStatus
from tfoperator.kube.pod_spec import FullPodSpec


class LocalPod(HasMetadata, frozen=True):
    """A pod with all of its spec that a runtime can honour."""

    spec: FullPodSpec = msgspec.field(default_factory=FullPodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


decode_pod = msgspec.json.Decoder(LocalPod).decode
"""Decodes one pod from JSON; raises msgspec.DecodeError if it isn't one."""
