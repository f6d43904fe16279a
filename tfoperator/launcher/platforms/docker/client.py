"""The connection of docker-py. It also provides log streams as `LogConnection`s."""

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
"""The number of seconds to wait for an event about a container's end. An engine writes the event milliseconds after the
end.
"""


def connect_docker(url: str = "") -> DockerClient:
    """Return a client of the engine at this URL, by default the URL in DOCKER_HOST. Raises PlatformUnavailable."""
    where = url or os.environ.get("DOCKER_HOST") or "the default address"
    try:
        _check_socket(docker.utils.parse_host(url or os.environ.get("DOCKER_HOST")))
        return DockerClient(base_url=url) if url else docker.from_env()
    except (DockerException, OSError) as error:
        raise PlatformUnavailable(
            f"no Docker engine answers at {where}: {error}. Start it, or run without it: as processes of this "
            "machine, with `launch --launcher process` or `pipeline run --containers process`; or, after eval "
            '"$(tfoperator local up)", as pods of a control plane on this machine, with kubernetes instead of process'
        ) from error


def _check_socket(address: str) -> None:
    """Raise OSError if no process listens on a Unix socket: in this case docker-py would leave its own socket open."""
    scheme, _, path = address.partition("://")
    if scheme == "http+unix":
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)


class _ContainerLog:
    """A log stream of docker-py. Its errors are converted to the errors of `LogReader`."""

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
        except Exception as error:  # noqa: BLE001 - it may be closed already, with various errors
            logger.debug("can't close a log: %s", error)


def read_file(container: Container, path: str) -> bytes:
    """Return a file of a container that may have ended.

    The result has at most one byte more than the limit of output.json. If it is not a regular file, return an empty
    document, which is invalid. Raises docker's NotFound.
    """
    stream, described = container.get_archive(path)
    if described.get("linkTarget") or int(described.get("mode", 0)) & ~0o7777:  # Go's bits: a folder, a link, a pipe
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
    """Yield a container's events since its creation, the oldest event first, and then new events for some seconds.

    The container need not exist any more. Raises docker's APIError, and OSError if the stream is cut.
    """
    created = datetime.fromisoformat(container.attrs["Created"])
    now = datetime.fromisoformat(client.info()["SystemTime"])  # all times are of the engine, whose clock may differ
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
    """Follow a container's log from a point in time on. Its lines have time stamps. Raises LogCut, NoLog."""
    begin = {"since": int(datetime.fromisoformat(since).timestamp())} if since else {}
    try:
        return _ContainerLog(container.logs(stream=True, follow=True, timestamps=True, **begin))
    except NotFound as error:
        raise NoLog(str(error)) from error
    except Exception as error:
        raise LogCut(str(error)) from error
