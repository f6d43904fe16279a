"""Runs a component's container on a Docker engine: that of this machine, or a remote one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from importlib.util import find_spec
from typing import Any

import yaml

from tfoperator.launcher.container import ContainerComponentLauncher, Launch, object_name
from tfoperator.launcher.core import OUTPUT_FILE, ExecutorContainerSpec, ExecutorSpec, NoLauncherError, PlatformConfig
from tfoperator.launcher.platforms.docker.backend import DockerBackend
from tfoperator.launcher.platforms.docker.client import connect_docker
from tfoperator.launcher.platforms.docker.config import DockerPlatformConfig, volumes_with

logger = logging.getLogger(__name__)

Json = dict[str, Any]


class DockerComponentLauncher(ContainerComponentLauncher):
    """Takes container specs, with a DockerPlatformConfig or with none."""

    kind = "docker"

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether it is a container, and what is configured is Docker."""
        if not isinstance(executor_spec, ExecutorContainerSpec):
            return False
        return platform_config is None or isinstance(platform_config, DockerPlatformConfig)

    @property
    def call(self) -> Json:
        """What docker's `containers.create` gets, but for the name. Raises TemplateError.

        As in Kubernetes, a command replaces the image's entry point, and its CMD with it; arguments alone go to the
        image's entry point.
        """
        container, call = self.container, self._run_kwargs
        for ours in ("docker_server_url", "pull"):
            call.pop(ours, None)
        call["image"] = container.image
        if container.command:
            call["entrypoint"] = list(container.command)
        if container.args:
            call["command"] = list(container.args)
        call["volumes"] = volumes_with(call.get("volumes"), self.tmp_path)
        return call

    def check(self) -> None:
        """As for every launcher, and that docker-py is there, without which no other try would help."""
        super().check()
        if find_spec("docker") is None:
            raise NoLauncherError("launching on Docker needs docker-py: pip install 'tfoperator[docker]'")

    def dry_run(self) -> str:
        """The call."""
        config = self._run_kwargs
        engine = config.get("docker_server_url", "what DOCKER_HOST says")
        name = object_name(self.component.name, "RUN", 1)
        call = {
            "engine": engine,
            "pull": config.get("pull", "missing"),
            "containers.create": {"name": name, **self.call},
        }
        # docker-py takes objects of its own, too (mounts, ulimits): they are dictionaries, or shown as they are.
        return yaml.safe_dump(json.loads(json.dumps(call, default=str)), sort_keys=False)

    @property
    def _run_kwargs(self) -> Json:
        config = self.platform_config
        return config.run_kwargs if isinstance(config, DockerPlatformConfig) else {}

    def _place(self) -> dict[str, str]:
        return {"engine": self._run_kwargs.get("docker_server_url", "")}

    def _engine(self) -> AbstractContextManager[Any]:
        return closing(connect_docker(self._run_kwargs.get("docker_server_url", "")))

    @contextmanager
    def _connect(self, launch: Launch) -> Iterator[DockerBackend]:
        with self._engine() as client:
            pull = self._run_kwargs.get("pull", "missing")
            yield DockerBackend(launch, client, self.call, pull, f"{self.tmp_path}/{OUTPUT_FILE}")

    def _resolve_digest(self, image: str) -> str:
        """What the name means right now: the image that is here, or else the registry's."""
        from docker.errors import DockerException, ImageNotFound

        with self._engine() as client:
            try:
                return str(client.images.get(image).id)
            except ImageNotFound:
                pass
            try:
                return str(client.images.get_registry_data(image).id)
            except (DockerException, OSError) as error:
                logger.debug("the digest of %s can't be found out: %s", image, error)
                return ""
