"""Reaching the Docker engine, and what its refusals mean."""

from __future__ import annotations

import platform
from typing import Any

import msgspec

from tfoperator.local.runtime import RuntimeUnavailable

try:
    import docker
    from docker.errors import APIError, DockerException
except ImportError as _missing:
    raise ImportError("the Docker runtime needs docker-py: pip install 'tfoperator[docker]'") from _missing

__all__ = ["BROKEN", "APIError", "Engine", "connect", "explain"]

_CONNECTIONS = 512
"""Two for each container that runs, its log's and its end's; what is beyond that works, too, without being kept."""
_TIMEOUT = 120.0  # seconds for an answer; an engine that starts a hundred containers is slow

BROKEN = (DockerException, OSError)
"""Whatever a call to the engine may raise: requests' errors are OSErrors."""


class Engine(msgspec.Struct, frozen=True):
    """An engine that answers. `api` is docker-py's low-level client, which is thread-safe."""

    api: Any
    cpus: int
    architecture: str


def connect() -> Engine:
    """Connect to what DOCKER_HOST and its companions name, or to the usual socket. Raises RuntimeUnavailable."""
    try:
        client = docker.from_env(version="auto", timeout=_TIMEOUT, max_pool_size=_CONNECTIONS)
        info = client.api.info()
    except BROKEN as error:
        raise RuntimeUnavailable(
            f"can't reach a Docker engine: {explain(error)}. Is it running, may you use it, is DOCKER_HOST right?"
        ) from None
    if info.get("OSType", "linux") != "linux":
        client.close()
        raise RuntimeUnavailable("this Docker engine runs Windows containers; it has to run Linux ones")
    return Engine(client.api, int(info.get("NCPU") or 1), str(info.get("Architecture") or platform.machine()))


def explain(error: Exception) -> str:
    """What the engine says, without the wrapping of HTTP."""
    if isinstance(error, APIError) and error.explanation:
        return str(error.explanation).strip()
    cause: BaseException = error
    while cause.__context__ is not None:  # the library wraps what went wrong some four times
        cause = cause.__context__
    return str(cause) or str(error) or type(error).__name__
