"""Runs a component's container as a distributed TFJob, through the same interface as any other step of a pipeline."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

from tfoperator.api.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.problems import errors
from tfoperator.api.v1.types import TFJOBS
from tfoperator.api.validation import validate_manifest
from tfoperator.kube.client import Client
from tfoperator.launcher.container import Launch, object_name
from tfoperator.launcher.core import (
    ExecutorContainerSpec,
    ExecutorSpec,
    PlatformConfig,
    PlatformConfigError,
    merge_values,
)
from tfoperator.launcher.platforms.kubernetes import (
    COMPONENT_LABEL,
    MAIN,
    KubernetesPodPlatformConfig,
    MergedPod,
    ObjectComponentLauncher,
)
from tfoperator.launcher.platforms.tfjob.backend import TFJobBackend

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


class TFJobComponentLauncher(ObjectComponentLauncher):
    """Takes container specs with a TFJobPlatformConfig. The operator must run in the cluster."""

    kind = "tfjob"

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether it is a container, and what is configured is a TFJob."""
        return isinstance(executor_spec, ExecutorContainerSpec) and isinstance(platform_config, TFJobPlatformConfig)

    def _base_pod(self) -> Json:
        base = super()._base_pod()
        del base["spec"]["restartPolicy"]  # the replica type's, not the template's
        return base

    def _manifest_of(self, merged: MergedPod) -> Json:
        config = self.platform_config
        assert isinstance(config, TFJobPlatformConfig)
        template = copy.deepcopy({"metadata": merged.pod["metadata"], "spec": merged.pod["spec"]})
        for container in template["spec"]["containers"]:
            if container["name"] == MAIN:
                container["name"] = DEFAULT_CONTAINER_NAME
        replicas = {
            kind: {"replicas": count, "template": copy.deepcopy(template)}
            for kind, count in (config.replicas or {"Worker": 1}).items()
        }
        job = {
            "apiVersion": f"{TFJOBS.group}/{TFJOBS.version}",
            "kind": TFJOBS.kind,
            "metadata": {"labels": {COMPONENT_LABEL: template["metadata"]["labels"][COMPONENT_LABEL]}},
            "spec": merge_values({"tfReplicaSpecs": replicas}, config.spec),
        }
        named = {**job, "metadata": {"name": object_name(self.component.name, "0" * 8, 1)}}
        if problems := errors(validate_manifest(named)):
            lines = [f"component {self.component.name}: its TFJob is not valid:", *map(str, problems)]
            raise PlatformConfigError("\n".join(lines))
        return job

    def _backend_for(self, launch: Launch, client: Client, namespace: str, manifest: Json) -> TFJobBackend:
        return TFJobBackend(launch, client, namespace, manifest)
