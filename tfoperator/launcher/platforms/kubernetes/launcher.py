"""Runs a component's container as a Kubernetes pod. The platform config can change the whole pod spec.

The launcher waits until the pod has ended, and forwards its log. `LaunchContext.pending` limits the time for which the
pod may wait, for example for a node.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import yaml

from tfoperator.kube.protocol.errors import ConfigError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.launcher.container.backend import Backend, Launch, LogForwarder, NeverStarted, object_name
from tfoperator.launcher.container.launcher import ContainerComponentLauncher
from tfoperator.launcher.core.component import ExecutorContainerSpec, ExecutorSpec, Json, PlatformConfig
from tfoperator.launcher.core.errors import PlatformConfigError
from tfoperator.launcher.core.output import ContainerEnd, output_file
from tfoperator.launcher.core.output_document import OUTPUT_FILE
from tfoperator.launcher.platforms.kubernetes.config import MAIN, KubernetesPodPlatformConfig
from tfoperator.launcher.platforms.kubernetes.layers import BASE, MergedPod, merge_layers
from tfoperator.launcher.platforms.kubernetes.object_backend import ObjectBackend, ObjectWait
from tfoperator.launcher.platforms.kubernetes.pod_status import (
    Pending,
    PodView,
    container_end,
    decode_pod_view,
    has_started,
    lost_end,
    pending,
)

COMPONENT_LABEL = "tfoperator.launcher/component"


class PodWait(ObjectWait[PodView]):
    """Waits for the end of a pod, and forwards its log. It limits the time for which the pod waits to start."""

    resource = PODS
    decode = staticmethod(decode_pod_view)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._context = self._launch.context
        self._last: PodView | None = None
        self._pending: Pending | None = None
        self._since = self._context.clock.monotonic()
        self._log: LogForwarder | None = None

    @property
    def deadline(self) -> float | None:
        """The time of `clock.monotonic()` until which the pod may wait, for example for a node (`PendingLimits`).

        The value is None while the pod doesn't wait.
        """
        if self._pending is None:
            return None
        return self._since + self._context.pending.seconds(self._pending.limit)

    def seen(self, state: PodView) -> ContainerEnd | None:
        """Handle a new state of the pod. Return the end of its container, if the container has ended.

        Start to forward the log when the container has started, and notify the user if the pod waits.
        """
        self._last = state
        if self._log is None and has_started(state):
            self._log = self._launch.forward_log(self._name, self._calls.log(self._name, MAIN))
        waits = pending(state)
        if waits is None or self._pending is None or waits.limit != self._pending.limit:
            self._since = self._context.clock.monotonic()
        if waits is not None and str(waits) != str(self._pending):
            self._context.tell(f"pod {self._name} waits: {waits}")
        self._pending = waits
        end = container_end(state)
        if end is not None and end.exit_code == 0:
            end = container_end(state, events=self._calls.events(state.metadata.uid))
        return end

    def gone(self) -> ContainerEnd:
        """Return the end of a container whose pod was deleted: `lost`, unless the container had succeeded before.

        A container that is `lost` did not end by itself, so the step can be retried (`ContainerEnd`).
        """
        return lost_end(self._last, f"{self._calls.namespace}/{self._name}")

    def check_deadline(self) -> None:
        """Raise NeverStarted if the pod has waited for too long, or can never start (such as with a bad image name)."""
        waits, deadline = self._pending, self.deadline
        if waits is None or deadline is None:
            return
        now = self._context.clock.monotonic()
        if now < deadline:
            return
        event = self._calls.warning(self._uid)
        reason = f"{waits} ({event})" if event and event not in str(waits) else str(waits)
        what = "has not been scheduled to a node" if waits.limit == "schedule" else "has not started"
        after = f" after {now - self._since:.0f} s" if waits.limit else ""
        raise NeverStarted(f"pod {self._calls.namespace}/{self._name} {what}{after}: {reason}")

    def finish(self, seconds: float = 10.0) -> None:
        """Forward the rest of the log, for at most this number of seconds."""
        if self._log is not None:
            self._log.finish(seconds)
            self._log = None


class ObjectComponentLauncher(ContainerComponentLauncher):
    """The base class of the launchers that create an object in a cluster: a pod, or a TFJob with a pod template.

    The pod, or the pod template, is the component's pod with the layers of the platform config merged over it.
    """

    expanded_by_kubernetes = True
    waits: ClassVar[type[ObjectWait[Any]]]
    """The class that waits until the object ends."""

    @abc.abstractmethod
    def _manifest_of(self, merged: MergedPod) -> Json:
        """Return the manifest of the object for this pod, without a name.

        Raises PlatformConfigError if the object would be invalid.
        """

    @property
    def sees_files(self) -> bool:
        """Whether the user gave a directory, not a URL, as `tmp_path` (the place of the launch's output.json).

        The launcher then expects that the user's config mounts this directory in the pod, on a volume that the launcher
        can read, too.
        """
        return bool(output_file(self.context.tmp_path)) and self.context.tmp_path != ""

    def _base_pod(self) -> Json:
        """Return the pod over which the layers of the config are merged."""
        return base_pod(self.component.name, self.container, "" if self.context.tmp_path else self.tmp_path)

    @property
    def merged(self) -> MergedPod:
        """The pod, without its name, and the origin of each value (the layer that has set it).

        Raises ComponentError if a layer can't be merged, if the merged pod is not allowed (`check_pod`), or if the
        placeholders in the component's command are invalid.
        """
        config = self.platform_config
        merged = merge_layers(
            self._base_pod(), config.layers if isinstance(config, KubernetesPodPlatformConfig) else ()
        )
        check_pod(self.component.name, merged.pod)
        return merged

    @property
    def manifest(self) -> Json:
        """The manifest of the object, without a name. Raises ComponentError if `merged` does.

        Also raises ComponentError if the manifest is invalid.
        """
        return self._manifest_of(self.merged)

    def dry_run(self) -> str:
        """Return the manifest, with the origin of each value as a comment."""
        merged = self.merged
        named = dict(self._manifest_of(merged))
        named["metadata"] = {"name": object_name(self.component.name, "RUN", 1), **named["metadata"]}
        return with_origins(named, merged)

    def check(self) -> None:
        """Run the checks that all launchers have in common. Also raise PlatformConfigError if no cluster is configured.

        The cluster comes from a kubeconfig, or from the pod in which this process runs.
        """
        super().check()
        try:
            with self.context.kube():  # this reads the kubeconfig, but makes no request
                pass
        except ConfigError as error:
            raise PlatformConfigError(f"component {self.component.name}: no cluster is configured: {error}") from None

    def _place(self) -> dict[str, str]:
        return {"namespace": self.context.namespace or self.manifest["metadata"].get("namespace") or ""}

    @contextmanager
    def _connect(self, launch: Launch) -> Iterator[Backend]:
        manifest = self.manifest
        with self.context.kube() as client:
            namespace = self.context.namespace or manifest["metadata"].get("namespace") or client.namespace
            yield ObjectBackend(launch, client, namespace or "default", self.waits, manifest)


class KubernetesPodComponentLauncher(ObjectComponentLauncher):
    """Runs container specs as pods, with a KubernetesPodPlatformConfig or without a config."""

    kind = "kubernetes"
    waits = PodWait

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_spec: PlatformConfig | None = None) -> bool:
        """Return whether the spec is a container spec, with a config for a pod or without a config."""
        if not isinstance(executor_spec, ExecutorContainerSpec):
            return False
        return platform_spec is None or type(platform_spec) is KubernetesPodPlatformConfig

    def _manifest_of(self, merged: MergedPod) -> Json:
        return merged.pod


def base_pod(component: str, container: ExecutorContainerSpec, message_directory: str) -> Json:
    """Return the pod for a component. The container `main` is the component's container, and is never restarted.

    In output.json, the container's program describes its outputs. With `message_directory`, the file output.json in
    this directory is the file of the container's termination message. So the launcher reads output.json from the pod's
    status, and needs no common storage with the pod.
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
    """Raise PlatformConfigError if a merged pod has no container `main` with an image, or has restartPolicy Always."""
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    own = [c for c in containers or () if isinstance(c, dict) and c.get("name") == MAIN]
    if len(own) != 1 or not own[0].get("image"):
        raise PlatformConfigError(f"component {component}: the config must have a container {MAIN!r} with an image")
    if spec is not None and spec.get("restartPolicy") == "Always":
        raise PlatformConfigError(
            f"component {component}: restartPolicy must not be Always, which would restart the component without "
            "end: leave it at Never, or choose OnFailure"
        )


def with_origins(manifest: Json, merged: MergedPod) -> str:
    """Return a manifest as YAML.

    Comments after it show the origin of each value that does not come from the component.
    """
    text: str = yaml.safe_dump(manifest, sort_keys=False)
    foreign = [f"#   {path}: {origin}" for path, origin in merged.origins.items() if origin != BASE]
    return text + "\n".join(["# from the platform config:", *foreign, ""]) if foreign else text
