"""Runs a component's container as a Kubernetes pod; the whole pod spec is open to the platform config."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import yaml

from tfoperator.launcher.container_launcher import Backend, ContainerComponentLauncher, object_name
from tfoperator.launcher.errors import PlatformConfigError
from tfoperator.launcher.executor_specs import ExecutorContainerSpec, ExecutorSpec
from tfoperator.launcher.layers import BASE, MAIN, MergedPod, merge_layers
from tfoperator.launcher.output import OUTPUT_FILE
from tfoperator.launcher.platform_configs import KubernetesPodPlatformConfig, PlatformConfig
from tfoperator.launcher.pod_backend import PodBackend

__all__ = ["COMPONENT_LABEL", "KubernetesPodComponentLauncher", "base_pod", "check_pod", "with_origins"]

Json = dict[str, Any]

COMPONENT_LABEL = "tfoperator.launcher/component"


class KubernetesPodComponentLauncher(ContainerComponentLauncher):
    """Takes container specs, with a KubernetesPodPlatformConfig or with none."""

    kind = "kubernetes"

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether it is a container, and what is configured is a pod of its own."""
        if not isinstance(executor_spec, ExecutorContainerSpec):
            return False
        return platform_config is None or type(platform_config) is KubernetesPodPlatformConfig

    @property
    def merged(self) -> MergedPod:
        """The pod, without its name, and where each of its values comes from. Raises ComponentError."""
        config = self.platform_config
        layers = config.layers if isinstance(config, KubernetesPodPlatformConfig) else ()
        base = base_pod(self.component.name, self.container, "" if self.context.tmp_path else self.tmp_path)
        merged = merge_layers(base, layers)
        check_pod(self.component.name, merged.pod)
        return merged

    def dry_run(self) -> str:
        """The manifest, with the origin of each value as a comment."""
        merged = self.merged
        named = dict(merged.pod)
        named["metadata"] = {"name": object_name(self.component.name, "RUN", 1), **merged.pod["metadata"]}
        return with_origins(named, merged)

    def _connect(self) -> AbstractContextManager[Backend]:
        return self._backend_of(self.merged.pod)

    @contextmanager
    def _backend_of(self, pod: Json) -> Iterator[PodBackend]:
        with self.context.kube() as client:
            namespace = self.context.namespace or pod["metadata"].get("namespace") or client.namespace or "default"
            yield PodBackend(self, client, namespace, pod)


def base_pod(component: str, container: ExecutorContainerSpec, message_directory: str) -> Json:
    """The lowest layer: the component's container, called `main`, once.

    With `message_directory` the pod hands output.json, which is written there, back as its termination message: the
    kubelet mounts a file of its own at that path, so launcher and pod need no storage in common.
    """
    main: Json = {"name": MAIN, "image": container.image}
    if container.command:
        main["command"] = list(container.command)
    if container.args:
        main["args"] = list(container.args)
    if message_directory:
        main["terminationMessagePath"] = f"{message_directory}/{OUTPUT_FILE}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {COMPONENT_LABEL: component[:63].rstrip("-_.")}},
        "spec": {"restartPolicy": "Never", "containers": [main]},
    }


def check_pod(component: str, pod: Json, main: str = MAIN) -> None:
    """Raise PlatformConfigError for a merged pod that can't run the component, or would never end."""
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    own = [c for c in containers or () if isinstance(c, dict) and c.get("name") == main]
    if len(own) != 1 or not own[0].get("image"):
        raise PlatformConfigError(f"component {component}: the config leaves no container {main!r} with an image")
    if spec is not None and spec.get("restartPolicy") == "Always":
        raise PlatformConfigError(
            f"component {component}: restartPolicy Always would start the component again for ever: "
            "leave it at Never, or choose OnFailure"
        )


def with_origins(manifest: Json, merged: MergedPod) -> str:
    """A manifest as YAML, and below it, as comments, which values are not the component's own and whose they are."""
    text: str = yaml.safe_dump(manifest, sort_keys=False)
    foreign = [f"#   {path}: {origin}" for path, origin in merged.origins.items() if origin != BASE]
    return text + "\n".join(["# from the platform config:", *foreign, ""]) if foreign else text
