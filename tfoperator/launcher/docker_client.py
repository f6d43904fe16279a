"""How docker-py is reached, and its log streams as a `LogSource`: where its ways differ from what the rest expects.

docker-py is imported when it is needed: only who launches on Docker has to have it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tfoperator.launcher.errors import PlatformUnavailable
from tfoperator.launcher.log_follower import LogCut, LogSource, NoLog

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

__all__ = ["connect_docker", "connect_log"]

logger = logging.getLogger(__name__)


def connect_docker(url: str = "") -> DockerClient:
    """A client of the engine at the URL, by default what DOCKER_HOST says. Raises PlatformUnavailable."""
    import docker

    where = url or os.environ.get("DOCKER_HOST") or "the default address"
    try:
        _check_socket(docker.utils.parse_host(url or os.environ.get("DOCKER_HOST")))
        return docker.DockerClient(base_url=url) if url else docker.from_env()
    except (docker.errors.DockerException, OSError) as error:
        raise PlatformUnavailable(f"no Docker engine answers at {where}: {error}. Is it running?") from error


def _check_socket(address: str) -> None:
    """Raise OSError if nobody listens at a Unix socket: docker-py leaves its own socket open when it finds that out."""
    scheme, _, path = address.partition("://")
    if scheme == "http+unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)


class _ContainerLog:
    """A log stream of docker-py, with its errors in the log follower's words."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except Exception as error:  # docker-py passes on what requests, urllib3 and sockets raise
            raise LogCut(str(error)) from error

    def close(self) -> None:
        try:
            self._stream.close()
        except Exception as error:  # noqa: BLE001 - it is closed already, in one of many ways
            logger.debug("closing a log: %s", error)


def connect_log(container: Container, since: str) -> LogSource:
    """Follow a container's log from a time on, with time stamps. Raises LogCut, NoLog."""
    from docker.errors import NotFound

    begin = {"since": int(datetime.fromisoformat(since).timestamp())} if since else {}
    try:
        return _ContainerLog(container.logs(stream=True, follow=True, timestamps=True, **begin))
    except NotFound as error:
        raise NoLog(str(error)) from error
    except Exception as error:
        raise LogCut(str(error)) from error
