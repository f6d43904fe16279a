"""The parts of objects that caches keep: labels and annotations that the operator reads, and containers' requests."""

from __future__ import annotations

import msgspec

MAX_REQUESTS = 4096
"""The maximum size of the resource requests of a cached pod, in bytes of JSON. If the requests are larger, the cached
pod counts as a pod without requests.
"""


DECIDING_CONTAINER = "tensorflow"
"""The container whose status every cached pod keeps, because it decides the state of the replica."""


class ContainerSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The resources that a container requests, and its restart policy.

    An init container with the policy `Always` is a sidecar, which keeps running.
    """

    resources: dict[str, object] = {}
    restart_policy: str = ""


GROUP_NAME_ANNOTATION = "scheduling.k8s.io/group-name"
"""This annotation of a pod names the pod's PodGroup, for Volcano."""

_OURS = "training.kubeflow.org/"
_LABELS = ("operator-name", "job-name", "replica-type", "replica-index", "job-role", "tensorboard", "data-service")
_OF_KUEUE = ("queue-name", "multikueue-origin", "priority-class", "max-exec-time-seconds")
KEPT_LABELS = {*(_OURS + name for name in _LABELS), *("kueue.x-k8s.io/" + name for name in _OF_KUEUE)}
KEPT_LABELS.add("scheduling.x-k8s.io/pod-group")
_COUNTS = ("restarts", "job-restarts", "disruptions", "job-disruptions")
_ANNOTATIONS = (*_COUNTS, "workers", "probe", "restart-mode", "stopped", "spec-hash", "tensorboard-url")
KEPT_ANNOTATIONS = {GROUP_NAME_ANNOTATION, "kueue.x-k8s.io/workload", *(_OURS + name for name in _ANNOTATIONS)}
"""`KEPT_LABELS` and `KEPT_ANNOTATIONS` are the labels and annotations that the operator reads. A test compares both
with the names in `tfoperator.api`.
"""
