"""Runs a component's container as a Kubernetes pod; the whole pod spec is open to the platform config."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tfoperator.kube.client import Client
from tfoperator.launcher.container import Backend, ContainerComponentLauncher, Launch, object_name
from tfoperator.launcher.core import (
    OUTPUT_FILE,
    ExecutorContainerSpec,
    ExecutorSpec,
    PlatformConfig,
    PlatformConfigError,
)
from tfoperator.launcher.platforms.kubernetes.config import KubernetesPodPlatformConfig
from tfoperator.launcher.platforms.kubernetes.layers import BASE, MAIN, MergedPod, merge_layers
from tfoperator.launcher.platforms.kubernetes.pod_backend import PodBackend

Json = dict[str, Any]

COMPONENT_LABEL = "tfoperator.launcher/component"


class ObjectComponentLauncher(ContainerComponentLauncher):
    """Base of the launchers that create an object with a pod, or a template of pods, of the config's layers."""

    expanded_by_kubernetes = True

    @abc.abstractmethod
    def _manifest_of(self, merged: MergedPod) -> Json:
        """The object with such a pod, without its name. Raises PlatformConfigError."""

    @abc.abstractmethod
    def _backend_for(self, launch: Launch, client: Client, namespace: str, manifest: Json) -> Backend:
        """What creates and follows the object."""

    def _base_pod(self) -> Json:
        """The lowest layer."""
        return base_pod(self.component.name, self.container, "" if self.context.tmp_path else self.tmp_path)

    @property
    def merged(self) -> MergedPod:
        """The pod, without its name, and where each of its values comes from. Raises ComponentError."""
        config = self.platform_config
        merged = merge_layers(
            self._base_pod(), config.layers if isinstance(config, KubernetesPodPlatformConfig) else ()
        )
        check_pod(self.component.name, merged.pod)
        return merged

    @property
    def manifest(self) -> Json:
        """The object, without its name. Raises ComponentError."""
        return self._manifest_of(self.merged)

    def dry_run(self) -> str:
        """The manifest, with the origin of each value as a comment."""
        merged = self.merged
        named = dict(self._manifest_of(merged))
        named["metadata"] = {"name": object_name(self.component.name, "RUN", 1), **named["metadata"]}
        return with_origins(named, merged)

    def _place(self) -> dict[str, str]:
        return {"namespace": self.context.namespace or self.manifest["metadata"].get("namespace") or ""}

    @contextmanager
    def _connect(self, launch: Launch) -> Iterator[Backend]:
        manifest = self.manifest
        with self.context.kube() as client:
            namespace = self.context.namespace or manifest["metadata"].get("namespace") or client.namespace
            yield self._backend_for(launch, client, namespace or "default", manifest)


class KubernetesPodComponentLauncher(ObjectComponentLauncher):
    """Takes container specs, with a KubernetesPodPlatformConfig or with none."""

    kind = "kubernetes"

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether it is a container, and what is configured is a pod of its own."""
        if not isinstance(executor_spec, ExecutorContainerSpec):
            return False
        return platform_config is None or type(platform_config) is KubernetesPodPlatformConfig

    def _manifest_of(self, merged: MergedPod) -> Json:
        return merged.pod

    def _backend_for(self, launch: Launch, client: Client, namespace: str, manifest: Json) -> PodBackend:
        return PodBackend(launch, client, namespace, manifest)


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


def check_pod(component: str, pod: Json) -> None:
    """Raise PlatformConfigError for a merged pod that can't run the component, or would never end."""
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    own = [c for c in containers or () if isinstance(c, dict) and c.get("name") == MAIN]
    if len(own) != 1 or not own[0].get("image"):
        raise PlatformConfigError(f"component {component}: the config leaves no container {MAIN!r} with an image")
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
