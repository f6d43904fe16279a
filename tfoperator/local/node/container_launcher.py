"""Starts the containers of one pod: prepares volumes and environment, calls the runtime, renews tokens."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tfoperator.base.clock import Clock
from tfoperator.kube.views.pod_spec import Container
from tfoperator.local.gpus.manager import GpuManager
from tfoperator.local.node.container_record import ContainerRecord
from tfoperator.local.node.expansion import ContainerConfigError, command_line, environment, image_arguments
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.node.node_api import NodeApi
from tfoperator.local.node.volumes import VolumeManager, token_seconds
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.protocol import (
    ContainerProcess,
    ContainerStart,
    LaunchError,
    LocalPod,
    Mount,
    OnExit,
    Runtime,
)

logger = logging.getLogger(__name__)

_RENEW_FRACTION = 0.8
_RETRY_FRACTION = 0.05
"""If the renewal of a service account's token fails, the next try follows after this fraction of the token's lifetime.
The first try is at `_RENEW_FRACTION` of the lifetime, as with a kubelet.
"""


class Prepared(msgspec.Struct, frozen=True):
    """The inputs of a container: the mounts of its volumes, and its environment."""

    mounts: tuple[Mount, ...]
    variables: dict[str, str]


@dataclass(frozen=True)
class NodeParts:
    """The objects that all pod workers of a node share."""

    api: NodeApi
    runtime: Runtime
    volumes: VolumeManager
    logs: LogStore
    gpus: GpuManager
    clock: Clock
    node_name: str


class ContainerLauncher:
    """Prepares and starts the containers of one pod. Not thread-safe: only the pod's worker uses it."""

    def __init__(self, pod: LocalPod, parts: NodeParts) -> None:
        # The worker got the pod before it bound the pod to this node. Containers may read the name of the node.
        placed = msgspec.structs.replace(pod.spec, node_name=parts.node_name)
        self._pod = msgspec.structs.replace(pod, spec=placed)
        self._parts = parts
        self.renewal: float | None = None
        """The time on the monotonic clock when the tokens in the pod's volumes must be renewed. None if there are no
        tokens.
        """

    def address(self, container: Container) -> str:
        """Prepare the runtime for this container, and return the pod's IP address.

        Raises StartLater if the container can't start yet, for example while its image is pulled. Raises LaunchError if
        it can never start.
        """
        return self._parts.runtime.prepare(
            self._pod, container, functools.partial(self._parts.api.services_of, self._pod)
        )

    def prepare(self, container: Container, ip: str) -> Prepared:
        """Create the pod's volumes and the container's environment.

        Raises ContainerConfigError or StartLater if something is missing that may be created later. For other problems
        raises LaunchError or OSError.
        """
        sources = self._parts.api.sources(self._pod.metadata.namespace)
        volumes = self._parts.volumes.prepare(self._pod, sources, self._parts.api.tokens(self._pod))
        variables = environment(self._pod, container, sources, ip)
        self._plan_renewal(_RENEW_FRACTION)
        mounts = self._parts.volumes.mounts(self._pod, container, volumes, variables)
        self._parts.runtime.reserve(self._pod, mounts)
        return Prepared(mounts, variables)

    def launch(
        self,
        record: ContainerRecord,
        prepared: Prepared,
        log: LogFile,
        on_exit: OnExit,
        warn: Callable[[str, str], None],
    ) -> ContainerProcess:
        """Start the container.

        Raises LaunchError if the runtime can't start it, for example because its program does not exist. Raises OSError
        if the file for its termination message can't be created.
        """
        pod, container = self._pod, record.container
        mounts = prepared.mounts
        record.message = self._parts.volumes.termination_message(pod, container, mounts, record.restarts)
        run = ContainerStart(
            pod=pod,
            container=container,
            command=command_line(container, prepared.variables),
            environment=prepared.variables,
            mounts=(*mounts, record.message.mount) if record.message.mount else mounts,
            log=log,
            services=self._parts.api.services(),
            args=image_arguments(container, prepared.variables),
            gpus=self._parts.gpus.devices_of(pod, container),
        )
        return self._parts.runtime.launch(run, on_exit, warn)

    def renew_tokens(self) -> None:
        """Write new tokens into the pod's volumes and schedule the next renewal; errors are logged."""
        api, pod = self._parts.api, self._pod
        try:
            self._parts.volumes.prepare(pod, api.sources(pod.metadata.namespace), api.tokens(pod))
        except (ContainerConfigError, LaunchError, OSError) as error:
            logger.warning("pod %s: its tokens can't be renewed: %s", pod.metadata.key, error)
            self._plan_renewal(_RETRY_FRACTION)
        else:
            self._plan_renewal(_RENEW_FRACTION)

    def _plan_renewal(self, part: float) -> None:
        seconds = token_seconds(self._pod)
        self.renewal = None if seconds is None else self._parts.clock.monotonic() + seconds * part
