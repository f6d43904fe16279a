"""The API servers that plans are played on, and what can be done to them: the embedded server and a real server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import msgspec

from hack.controlplane import ControlPlane, control_plane
from hack.faults.injection.clock import Origin, ScaledClock
from hack.faults.plan.attachments import GANG_SCHEDULERS
from hack.faults.plan.steps import Profile
from hack.faults.simulation.pod_groups import PRIORITY_CLASSES_CRD, pod_group_crds, pod_groups_of
from tfoperator.api.schema.crd import crd
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import StaticCredentials, bearer
from tfoperator.kube.config.tls import TlsOptions
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tfoperator.local.apiserver.objects.custom_resources import custom_resource
from tfoperator.local.apiserver.objects.tfjobs import tfjobs
from tfoperator.local.apiserver.server import EmbeddedApiServer

SPEED = 20.0
"""How many times as fast as real time operators live."""

_BOOKMARKS = 1.0
_CRD_SECONDS = 60.0
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Server(Protocol):
    """An API server for plans. `read_deadline` is how long (real seconds) its watches may be silent."""

    profile: Profile
    origin: Origin
    url: str
    token: str
    certificate: bytes
    read_deadline: float | None

    def client(self) -> Client:
        """A client straight to it, without limits."""
        ...

    def compact(self) -> None:
        """Forget all history."""
        ...

    def restart(self) -> None:
        """Stop the API server and start it again; returns when it is ready."""
        ...

    def pause_storage(self, seconds: float) -> None:
        """Stop etcd for a while."""
        ...


class _Base:
    url: str
    token: str
    certificate: bytes

    def client(self) -> Client:
        return Client(
            ClusterConfig(
                server=self.url,
                tls=TlsOptions(ca=self.certificate),
                credentials=StaticCredentials(bearer(self.token, "the server's token")),
            ),
            request_timeout=15.0,
        )

    def compact(self) -> None:
        """Nothing, unless the server can."""

    def restart(self) -> None:
        """Nothing, unless the server can."""

    def pause_storage(self, seconds: float) -> None:
        """Nothing, unless the server can."""


class _Embedded(_Base):
    def __init__(self, server: EmbeddedApiServer, origin: Origin) -> None:
        self._server = server
        self.origin = origin
        self.profile = Profile(real=False, wall_speed=origin.wall_speed)
        self.url, self.token, self.certificate = server.url, server.token, server.certificate
        self.read_deadline: float | None = 2.5 * _BOOKMARKS

    def compact(self) -> None:
        self._server.compact()


class _Real(_Base):
    def __init__(self, plane: ControlPlane, *, gangs: bool) -> None:
        self._plane = plane
        self.origin = Origin.here(SPEED, 1.0)
        self.profile = Profile(real=True, wall_speed=1.0, gangs=gangs)
        self.url, self.token = plane.url, plane.token
        self.certificate = plane.ca_file.read_bytes()
        self.read_deadline: float | None = None

    def restart(self) -> None:
        # With its client: the garbage collector takes up to a minute to find an API server again, and isn't on trial.
        self._plane.stop_controller_manager()
        self._plane.stop_api_server()
        self._plane.start_api_server()
        self._plane.start_controller_manager()

    def pause_storage(self, seconds: float) -> None:
        pid = self._plane.pids["etcd"]
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def embedded() -> Iterator[Server]:
    """An embedded API server whose wall clock runs as fast as the operators' clocks."""
    origin = Origin.here(SPEED, SPEED)
    more = [custom_resource(crd) for crd in (*pod_group_crds(), PRIORITY_CLASSES_CRD)]
    with EmbeddedApiServer(
        clock=ScaledClock(origin), custom_resources=(*tfjobs(), *more), bookmark_interval=_BOOKMARKS
    ) as server:
        yield _Embedded(server, origin)


@contextmanager
def real(plane: ControlPlane | None = None) -> Iterator[Server]:
    """A real control plane: the given one (which has the CRD of TFJobs alone, so no gangs), or one of its own."""
    with ExitStack() as stack:
        own = plane is None
        if plane is None:
            plane = stack.enter_context(control_plane())
            with _Real(plane, gangs=False).client() as client:
                _install(client, [crd(), *pod_group_crds()], [TFJOBS, *map(pod_groups_of, GANG_SCHEDULERS)])
            # The garbage collector asks for new kinds twice a minute, and at its start.
            plane.stop_controller_manager()
            plane.start_controller_manager()
        yield _Real(plane, gangs=own)


def _install(client: Client, crds: Sequence[dict[str, Any]], served: Sequence[Resource]) -> None:
    for definition in crds:
        client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition, _decode)
    end = time.monotonic() + _CRD_SECONDS
    for resource in served:
        while True:
            try:
                client.list(resource, "", _decode)
            except KubeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                break
