"""The connection to the Docker engine, and the interpretation of its errors."""

from __future__ import annotations

import logging
import platform
import re
from collections.abc import Callable
from typing import Any

import docker
import msgspec
from docker.errors import APIError, DockerException, NotFound

from tfoperator.local.runtime.protocol import ContainerStart, LaunchError, RuntimeUnavailable

logger = logging.getLogger(__name__)

_MAX_POOL_SIZE = 512
"""The number of connections that are kept. Each running container needs two: for its log and for its end. More
connections work, but are not kept.
"""
_TIMEOUT = 120.0  # seconds for a response; an engine that starts a hundred containers is slow

_NOT_FOUND = re.compile(r"not found|no such file", re.IGNORECASE)

ENGINE_ERRORS = (DockerException, OSError)
"""The errors of calls to the engine. The errors of the package requests are OSErrors."""


class Engine(msgspec.Struct, frozen=True):
    """An engine that responds. `api` is docker-py's low-level client, which is thread-safe."""

    api: Any
    cpus: int
    architecture: str


def connect() -> Engine:
    """Connect to the engine that DOCKER_HOST and similar variables name, or to the default socket.

    Raises RuntimeUnavailable if the engine can't be reached, or if it runs Windows containers.
    """
    try:
        client = docker.from_env(version="auto", timeout=_TIMEOUT, max_pool_size=_MAX_POOL_SIZE)
        info = client.api.info()
    except ENGINE_ERRORS as error:
        raise RuntimeUnavailable(
            f"can't reach a Docker engine: {explain(error)}. Check that the engine is running, that you have the "
            "permission to use it, and that DOCKER_HOST is correct"
        ) from None
    if info.get("OSType", "linux") != "linux":
        client.close()
        raise RuntimeUnavailable("this Docker engine runs Windows containers: switch the engine to Linux containers")
    return Engine(client.api, int(info.get("NCPU") or 1), str(info.get("Architecture") or platform.machine()))


def explain(error: BaseException) -> str:
    """Return the engine's error message, without the texts that docker-py and its HTTP client add."""
    if isinstance(error, APIError) and error.explanation:
        return str(error.explanation).strip()
    cause: BaseException = error
    while cause.__context__ is not None:  # the library wraps the original error about four times
        cause = cause.__context__
    return str(cause) or str(error) or type(error).__name__


def launch_error(run: ContainerStart, error: Exception) -> LaunchError:
    """Return a LaunchError with an exit code: 127 if something is not found, as in shells, or else 126.

    If the replica has the restart policy `ExitCode`, the operator does not restart it after either of these codes.
    """
    text = explain(error)
    code = 127 if isinstance(error, APIError) and _NOT_FOUND.search(text) else 126
    return LaunchError(f"can't start container {run.container.name!r} of image {run.container.image!r}: {text}", code)


def runs(api: Any, container: str) -> bool:
    """Return whether a container runs. Return True if the engine doesn't respond to this request."""
    try:
        return bool(api.inspect_container(container)["State"]["Running"])
    except NotFound:
        return False
    except ENGINE_ERRORS:
        return True


def remove_container(api: Any, container: str) -> bool:
    """Remove a container by its name or ID, even if it runs.

    Return False if the engine refuses, or if there is no such container.
    """
    return try_remove(lambda: api.remove_container(container, force=True, v=True), container)


def try_remove(removal: Callable[[], object], what: str) -> bool:
    """Call `removal`. Return False if the engine refuses, or if there is no such object.

    `what` is the object's name for the log.
    """
    try:
        removal()
    except ENGINE_ERRORS as error:
        logger.debug("%s can't be removed, or is already gone: %s", what, explain(error))
        return False
    return True
