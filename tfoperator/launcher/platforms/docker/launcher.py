"""Runs a component's container on a Docker engine, on this machine or on a remote machine."""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from importlib.util import find_spec
from typing import Any, Self

import yaml

from tfoperator.launcher.container.backend import Backend, Launch, object_name
from tfoperator.launcher.container.launcher import ContainerComponentLauncher
from tfoperator.launcher.core.component import ExecutorContainerSpec, ExecutorSpec, Json, PlatformConfig, merge_values
from tfoperator.launcher.core.errors import NoLauncherError, PlatformConfigError
from tfoperator.launcher.core.output import output_file

logger = logging.getLogger(__name__)


class DockerPlatformConfig(PlatformConfig):
    """Arguments of docker-py's `containers.run`, and two additional arguments.

    `docker_server_url` selects the engine (by default the engine in DOCKER_HOST). `pull` selects when the image is
    pulled: `missing` (the default), `always` or `never`. If two configs are merged, dictionaries are merged
    recursively, and a list in the newer config replaces the older list.
    """

    PULLS = ("missing", "always", "never")
    OURS = frozenset(
        {"image", "command", "entrypoint", "name", "detach", "remove", "auto_remove", "stream", "stdout", "stderr"}
    )
    """Arguments that the launcher sets. A config with one of these arguments is refused."""

    def __init__(self, **run_kwargs: Any) -> None:
        """Raises PlatformConfigError for an argument that the launcher itself sets, and for an invalid `pull`."""
        if taken := sorted(self.OURS & run_kwargs.keys()):
            raise PlatformConfigError(
                f"docker: {', '.join(taken)}: remove this from the config, because the launcher sets it (image and "
                "command come from the component)"
            )
        if run_kwargs.get("pull", "missing") not in self.PULLS:
            raise PlatformConfigError(
                f"docker: pull: must be one of {', '.join(self.PULLS)}, but is {run_kwargs['pull']!r}"
            )
        self._run_kwargs = copy.deepcopy(run_kwargs)

    @property
    def run_kwargs(self) -> Json:
        """A copy of the arguments, including the additional arguments."""
        return copy.deepcopy(self._run_kwargs)

    def with_volume(self, path: str) -> Self:
        """Return a config that mounts the directory `path` of the engine's machine at the same path in the container.

        If the config already mounts something at this path, nothing changes.
        """
        return type(self)(**{**self._run_kwargs, "volumes": volumes_with(self._run_kwargs.get("volumes"), path)})

    def as_json(self) -> Json:
        """Return the arguments."""
        return self.run_kwargs

    def _merged(self, new: Self) -> Self:
        return type(self)(**merge_values(self._run_kwargs, new._run_kwargs))


def volumes_with(volumes: Any, path: str) -> Any:
    """Return docker-py's argument `volumes` with a mount of the directory `path` at the same path in the container.

    If the argument already has a mount at this path, it is returned unchanged.
    """
    if isinstance(volumes, list):
        mounted = any(str(volume).split(":")[1:2] == [path] for volume in volumes)
        return volumes if mounted else [*volumes, f"{path}:{path}:rw"]
    existing = dict(volumes or {})
    if any(isinstance(v, dict) and v.get("bind") == path for v in existing.values()):
        return existing
    return {**existing, path: {"bind": path, "mode": "rw"}}


class DockerComponentLauncher(ContainerComponentLauncher):
    """Accepts container specs, with a DockerPlatformConfig or without a config."""

    kind = "docker"

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_spec: PlatformConfig | None = None) -> bool:
        """Return whether the spec is a container spec, with a config for Docker or without a config."""
        if not isinstance(executor_spec, ExecutorContainerSpec):
            return False
        return platform_spec is None or isinstance(platform_spec, DockerPlatformConfig)

    @property
    def call(self) -> Json:
        """The arguments of docker's `containers.create`, without the name.

        Raises TemplateError if a placeholder is invalid. As in Kubernetes, a command replaces the image's entry point
        and its CMD. Without a command, the arguments go to the image's entry point.
        """
        container, call = self.container, self._run_kwargs
        for ours in ("docker_server_url", "pull"):
            call.pop(ours, None)
        call["image"] = container.image
        if container.command:
            call["entrypoint"] = list(container.command)
        if container.args:
            call["command"] = list(container.args)
        if output_file(self.tmp_path):
            call["volumes"] = volumes_with(call.get("volumes"), self.tmp_path)
        return call

    @property
    def sees_files(self) -> bool:
        """Whether the container can mount `tmp_path`: it is a directory, and the engine runs on this machine."""
        engine = str(self._run_kwargs.get("docker_server_url") or os.environ.get("DOCKER_HOST", ""))
        return bool(output_file(self.tmp_path)) and (not engine or engine.startswith("unix://"))

    def check(self) -> None:
        """Run the checks of the base class. Also raise NoLauncherError if docker-py is not installed."""
        super().check()
        if find_spec("docker") is None:
            raise NoLauncherError("launching on Docker needs docker-py: pip install 'tfoperator[docker]'")

    def dry_run(self) -> str:
        """Return the arguments of docker's `containers.create` as YAML."""
        config = self._run_kwargs
        engine = config.get("docker_server_url", "the value of DOCKER_HOST")
        name = object_name(self.component.name, "RUN", 1)
        call = {
            "engine": engine,
            "pull": config.get("pull", "missing"),
            "containers.create": {"name": name, **self.call},
        }
        # The config may contain objects of docker-py, such as Mount. `default=str` shows them as text.
        return yaml.safe_dump(json.loads(json.dumps(call, default=str)), sort_keys=False)

    @property
    def _run_kwargs(self) -> Json:
        config = self.platform_config
        return config.run_kwargs if isinstance(config, DockerPlatformConfig) else {}

    def _place(self) -> dict[str, str]:
        return {"engine": self._run_kwargs.get("docker_server_url", "")}

    def _engine(self) -> AbstractContextManager[Any]:
        from tfoperator.launcher.platforms.docker.client import connect_docker

        return closing(connect_docker(self._run_kwargs.get("docker_server_url", "")))

    @contextmanager
    def _connect(self, launch: Launch) -> Iterator[Backend]:
        from tfoperator.launcher.platforms.docker.backend import DockerBackend

        with self._engine() as client:
            pull = self._run_kwargs.get("pull", "missing")
            yield DockerBackend(launch, client, self.call, pull, output_file(self.tmp_path))

    def _resolve_digest(self, image: str) -> str:
        """Return the id of the engine's local image, or else the registry's digest, or "" if both are unknown."""
        from docker.errors import DockerException, ImageNotFound

        with self._engine() as client:
            try:
                return str(client.images.get(image).id)
            except ImageNotFound:
                pass
            try:
                return str(client.images.get_registry_data(image).id)
            except (DockerException, OSError) as error:
                logger.debug("can't find the digest of %s: %s", image, error)
                return ""
