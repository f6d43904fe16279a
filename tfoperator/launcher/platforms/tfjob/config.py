"""What a platform config can say about a TFJob: replicas, its spec, and layers for the pods of every replica."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

from tfoperator.launcher.core import PlatformConfigError, merge_values
from tfoperator.launcher.platforms.kubernetes import KubernetesPodPlatformConfig

Json = dict[str, Any]


class TFJobPlatformConfig(KubernetesPodPlatformConfig):
    """Launches the component's container in every replica of a TFJob, so that one step trains on many pods.

    `replicas` says how many of which type, e.g. `{"PS": 1, "Worker": 4}`; `spec` is merged into the TFJob's spec (RFC
    7386), for a run policy, a restart policy or a type's own template. The pod spec is laid over every replica's
    template; its container `main` is called `tensorflow` there, as in every TFJob.
    """

    def __init__(
        self,
        replicas: Mapping[str, int] | None = None,
        *,
        spec: Mapping[str, Any] | None = None,
        pod_spec: Any = None,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(pod_spec, labels=labels, annotations=annotations, metadata=metadata)
        self.replicas: Mapping[str, int] = dict(replicas or {})
        self.spec: Json = copy.deepcopy(dict(spec or {}))
        for kind, count in self.replicas.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise PlatformConfigError(f"tfjob: replicas: {kind}: {count!r} is no number of replicas")

    def as_json(self) -> Json:
        """The layers, the replicas and the spec."""
        return {**super().as_json(), "replicas": dict(self.replicas), "spec": self.spec}

    def _merged(self, new: Self) -> Self:
        merged = super()._merged(new)
        merged.replicas = {**self.replicas, **new.replicas}
        merged.spec = merge_values(self.spec, new.spec)
        return merged
