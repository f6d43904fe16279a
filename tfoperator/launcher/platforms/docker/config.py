"""What a platform config can say about Docker."""

from __future__ import annotations

import copy
from typing import Any, Self

from tfoperator.launcher.core import PlatformConfig, PlatformConfigError, merge_values

Json = dict[str, Any]


class DockerPlatformConfig(PlatformConfig):
    """Arguments of docker-py's `containers.run`, and two of ours.

    `docker_server_url` says which engine (by default what DOCKER_HOST says), `pull` when the image is fetched:
    `missing` (the default), `always` or `never`. Merging is a recursive merge of dictionaries; lists are replaced.
    """

    PULLS = ("missing", "always", "never")
    OURS = frozenset(
        {"image", "command", "entrypoint", "name", "detach", "remove", "auto_remove", "stream", "stdout", "stderr"}
    )
    """What the launcher decides; a config that has one of these is refused."""

    def __init__(self, **run_kwargs: Any) -> None:
        """Raises PlatformConfigError for an argument that the launcher itself decides."""
        if taken := sorted(self.OURS & run_kwargs.keys()):
            raise PlatformConfigError(
                f"docker: {', '.join(taken)}: the launcher decides that (image and command are the component's)"
            )
        if run_kwargs.get("pull", "missing") not in self.PULLS:
            raise PlatformConfigError(f"docker: pull: {run_kwargs['pull']!r} is none of {', '.join(self.PULLS)}")
        self._run_kwargs = copy.deepcopy(run_kwargs)

    @property
    def run_kwargs(self) -> Json:
        """A copy of the arguments, ours among them."""
        return copy.deepcopy(self._run_kwargs)

    def with_volume(self, path: str) -> Self:
        """The same, and a directory of the engine's machine under its own path, unless something is mounted there."""
        return type(self)(**{**self._run_kwargs, "volumes": volumes_with(self._run_kwargs.get("volumes"), path)})

    def named(self, origin: str) -> Self:
        """The same: a call of docker has no place for the origin."""
        del origin
        return self

    def as_json(self) -> Json:
        """The arguments."""
        return self.run_kwargs

    def _merged(self, new: Self) -> Self:
        return type(self)(**merge_values(self._run_kwargs, new._run_kwargs))


def volumes_with(volumes: Any, path: str) -> Any:
    """The volumes with one more directory, under the same path inside; unless the config mounts something there."""
    if isinstance(volumes, list):
        mounted = any(str(volume).split(":")[1:2] == [path] for volume in volumes)
        return volumes if mounted else [*volumes, f"{path}:{path}:rw"]
    known = dict(volumes or {})
    if any(isinstance(v, dict) and v.get("bind") == path for v in known.values()):
        return known
    return {**known, path: {"bind": path, "mode": "rw"}}
