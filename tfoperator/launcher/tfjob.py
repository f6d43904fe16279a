"""Runs a component's container as a distributed TFJob, through the same interface as any other step of a pipeline."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tfoperator.api.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.problems import errors
from tfoperator.api.v1.types import TFJOBS
from tfoperator.api.validation import validate_manifest
from tfoperator.launcher.container_launcher import Backend, ContainerComponentLauncher, object_name
from tfoperator.launcher.errors import PlatformConfigError
from tfoperator.launcher.executor_specs import ExecutorContainerSpec, ExecutorSpec
from tfoperator.launcher.kubernetes_pod import COMPONENT_LABEL, base_pod, check_pod, with_origins
from tfoperator.launcher.layers import MAIN, MergedPod, merge_layers
from tfoperator.launcher.platform_configs import PlatformConfig, TFJobPlatformConfig, merge_values
from tfoperator.launcher.tfjob_backend import TFJobBackend

__all__ = ["TFJobComponentLauncher"]

Json = dict[str, Any]


class TFJobComponentLauncher(ContainerComponentLauncher):
    """Takes container specs with a TFJobPlatformConfig. The operator must run in the cluster."""

    kind = "tfjob"

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether it is a container, and what is configured is a TFJob."""
        return isinstance(executor_spec, ExecutorContainerSpec) and isinstance(platform_config, TFJobPlatformConfig)

    @property
    def manifest(self) -> Json:
        """The TFJob, without its name. Raises ComponentError."""
        return self._job(self._merged())

    def dry_run(self) -> str:
        """The manifest, with the origin of each value of the pods as a comment."""
        merged = self._merged()
        job = self._job(merged)
        job["metadata"] = {"name": object_name(self.component.name, "RUN", 1), **job["metadata"]}
        return with_origins(job, merged)

    @property
    def _config(self) -> TFJobPlatformConfig:
        assert isinstance(self.platform_config, TFJobPlatformConfig)
        return self.platform_config

    def _merged(self) -> MergedPod:
        base = base_pod(self.component.name, self.container, "" if self.context.tmp_path else self.tmp_path)
        del base["spec"]["restartPolicy"]  # the replica type's, not the template's
        merged = merge_layers(base, self._config.layers)
        check_pod(self.component.name, merged.pod)
        return merged

    def _job(self, merged: MergedPod) -> Json:
        config = self._config
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

    def _connect(self) -> AbstractContextManager[Backend]:
        return self._open()

    @contextmanager
    def _open(self) -> Iterator[TFJobBackend]:
        with self.context.kube() as client:
            namespace = self.context.namespace or client.namespace or "default"
            yield TFJobBackend(self, client, namespace, self.manifest)
