"""Connects to a Docker engine through docker-py, and reads logs, events and files of containers."""

from __future__ import annotations

import io
import logging
import os
import socket
import tarfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import docker
import urllib3
from docker import DockerClient
from docker.errors import DockerException, NotFound
from docker.models.containers import Container

from tfoperator.launcher.core.errors import PlatformUnavailable
from tfoperator.launcher.core.output_document import MAX_OUTPUT_BYTES
from tfoperator.launcher.platforms.docker.history import ContainerEvent
from tfoperator.logs.lines.reader import LogConnection, LogCut, NoLog

logger = logging.getLogger(__name__)

_EVENT_SECONDS = 10
"""The maximum seconds to wait for the event `die` of a container that has ended. The engine usually reports the event
within milliseconds.
"""


def connect_docker(url: str = "") -> DockerClient:
    """Return a client of the engine at this URL, by default the URL in DOCKER_HOST. Raises PlatformUnavailable."""
    where = url or os.environ.get("DOCKER_HOST") or "the default address"
    try:
        _check_socket(docker.utils.parse_host(url or os.environ.get("DOCKER_HOST")))
        return DockerClient(base_url=url) if url else docker.from_env()
    except (DockerException, OSError) as error:
        raise PlatformUnavailable(
            f"no Docker engine answers at {where}: {error}. Start the engine. To run processes of this machine "
            "without an engine, use `launch --launcher process` or `pipeline run --containers process`. To run pods of "
            'a control plane on this machine, use eval "$(tfoperator local up)", and kubernetes instead of process'
        ) from error


def _check_socket(address: str) -> None:
    """Raise OSError if the address is a Unix socket on which no process listens.

    Without this check, docker-py would leave its own socket open after such an error.
    """
    scheme, _, path = address.partition("://")
    if scheme == "http+unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)


class _ContainerLog:
    """A `LogConnection` for a log stream of docker-py. Any error of the stream becomes a LogCut."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except Exception as error:  # docker-py lets through the exceptions of requests, urllib3 and sockets
            raise LogCut(str(error)) from error

    def close(self) -> None:
        try:
            self._stream.close()
        except Exception as error:  # noqa: BLE001 - a stream that is closed already raises various errors
            logger.debug("can't close a log: %s", error)


def read_file(container: Container, path: str) -> bytes:
    """Return the content of a file in a container. The container may have ended.

    A file larger than MAX_OUTPUT_BYTES gives MAX_OUTPUT_BYTES + 1 bytes, and a directory, link or pipe gives no bytes.
    `parse_output` refuses both results. Raises docker's NotFound if the container has no such file, or does not exist.
    """
    stream, described = container.get_archive(path)
    if described.get("linkTarget") or int(described.get("mode", 0)) & ~0o7777:  # Go's bits of a folder, link or pipe
        return b""
    archive = bytearray()
    for chunk in stream:
        archive += chunk
        if len(archive) > MAX_OUTPUT_BYTES + (1 << 16):
            return bytes(MAX_OUTPUT_BYTES + 1)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.next()
        content = tar.extractfile(member) if member is not None and member.isfile() else None
        return b"" if content is None else content.read(MAX_OUTPUT_BYTES + 1)


def read_events(client: DockerClient, container: Container) -> Iterator[ContainerEvent]:
    """Yield a container's events `kill` and `die` since its creation, the oldest first, then new events for 10 seconds.

    The container may be removed already. Raises docker's APIError, and OSError if the connection breaks.
    """
    created = datetime.fromisoformat(container.attrs["Created"])
    now = datetime.fromisoformat(client.info()["SystemTime"])  # by the engine's clock, as the times of events
    stream = client.events(
        since=int(created.timestamp()),
        until=int(now.timestamp()) + _EVENT_SECONDS,
        filters={"type": "container", "container": container.id, "event": ["kill", "die"]},
        decode=True,
    )
    try:
        for event in stream:
            number = str(event["Actor"]["Attributes"].get("signal", ""))
            yield ContainerEvent(event["Action"], int(number) if number.isdecimal() else 0)
    except urllib3.exceptions.HTTPError as error:
        raise OSError(f"the stream of events of container {container.name} was interrupted: {error}") from error
    finally:
        stream.close()


def connect_log(container: Container, since: str) -> LogConnection:
    """Follow a container's log from the time stamp `since` ("": from the beginning). The lines have time stamps.

    Raises NoLog if the container does not exist, and LogCut for any other error.
    """
    begin = {"since": int(datetime.fromisoformat(since).timestamp())} if since else {}
    try:
        return _ContainerLog(container.logs(stream=True, follow=True, timestamps=True, **begin))
    except NotFound as error:
        raise NoLog(str(error)) from error
    except Exception as error:
        raise LogCut(str(error)) from error
