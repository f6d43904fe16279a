"""The interface between the node agent and a container runtime: of processes (`process`) or of Docker (`docker`)."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from tfoperator.kube.views.objects import HasMetadata, PodStatus
from tfoperator.kube.views.pod_spec import Container, FullPodSpec
from tfoperator.local.runtime.beneath import make_beneath
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.loopback_network import LoopbackNetwork
from tfoperator.local.runtime.measurements import Measurement, PeakMemory


class LocalPod(HasMetadata, frozen=True):
    """A pod with all fields of its spec that a runtime supports."""

    spec: FullPodSpec = msgspec.field(default_factory=FullPodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


decode_pod = msgspec.json.Decoder(LocalPod).decode
"""Decodes one pod from JSON; raises msgspec.DecodeError if it is invalid."""


def host_name(pod: LocalPod) -> str:
    """Return the pod's name, cut to the 63 characters of a host name, as a kubelet does."""
    return re.sub(r"[^a-z0-9]+$", "", (pod.spec.hostname or pod.metadata.name)[:63])


class Mount(msgspec.Struct, frozen=True):
    """One volume of one container: the path of its content, and the path in the container."""

    name: str
    source: Path
    mount_path: str
    read_only: bool = False
    volume: Path | None = None
    """With a `subPath`: the whole volume, below which containers may have put links on the path to `source`."""

    @property
    def replaces_tmp(self) -> bool:
        """Whether it replaces the folder for temporary files."""
        return self.mount_path.rstrip("/") == "/tmp"

    def make_source(self) -> None:
        """Ensure that `source` exists if it is a part of a volume, and isn't behind a link. Raises UnsafePath."""
        if self.volume is not None:
            make_beneath(self.volume, str(self.source.relative_to(self.volume)))


def real_path(path: str, mounts: Sequence[Mount]) -> str:
    """Return the path on this machine of a container's path: within the innermost mount above it, else unchanged."""
    wanted = PurePosixPath(path)
    for mount in sorted(mounts, key=lambda mount: len(PurePosixPath(mount.mount_path).parts), reverse=True):
        if wanted.is_relative_to(mount.mount_path):
            return str(mount.source / wanted.relative_to(mount.mount_path))
    return path


class HostService(msgspec.Struct, frozen=True):
    """A service of this process that containers reach as `https://{name}:{port}`.

    If the containers of a runtime have their own networks, the runtime makes a socket at this port that only a single
    network can reach, and passes the socket to `accept`, which then owns it. The runtime calls `accept` from any
    thread, once a pod that uses the service runs.
    """

    name: str
    port: int
    accept: Callable[[socket.socket], object]


OnExit = Callable[[int, str], object]
"""Called once, from a thread of the runtime, when a container has ended: (code, reason).

For a killed process, the code is 128 + the signal's number. The reason is set if the runtime has one (OOMKilled)."""


class StartLater(Exception):
    """A container can't be started now: its image is being pulled, for example. Retry in `delay` seconds.

    `reason` and the message are the same as in a kubelet's waiting state, e.g. `ErrImagePull`. If there is an `event`,
    record a warning with this reason.
    """

    def __init__(self, reason: str, message: str, delay: float, *, event: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.delay = delay
        self.event = event


class LaunchError(Exception):
    """A container can't be started, now or later. `exit_code` follows the shell: 126 not executable, 127 not found.

    Both are below 128: the policy `ExitCode` rightly treats them as permanent.
    """

    def __init__(self, message: str, exit_code: int = 127) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RuntimeUnavailable(Exception):
    """The runtime is not available on this machine. The message has instructions for the user."""


class ContainerStart(msgspec.Struct, frozen=True):
    """All inputs of one start of a container."""

    pod: LocalPod
    container: Container
    command: tuple[str, ...]
    """Command and arguments, expanded; empty when the image's entry point is used."""
    environment: dict[str, str]
    mounts: tuple[Mount, ...]
    log: LogFile
    services: Collection[tuple[str, str]] = frozenset()
    """(namespace, name) of the services that exist."""
    args: tuple[str, ...] = ()
    """Arguments for the image's entry point, expanded, if `command` is empty."""
    gpus: tuple[str, ...] | None = None
    """The UUIDs of the GPUs that only this container uses; None if the devices are unknown."""


class Beside(msgspec.Struct, frozen=True):
    """A command to run beside a container: how to start it, and the callbacks for its process."""

    program: str
    """The program's path."""
    command: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    alive: Callable[[], bool]
    """Whether the container still runs. May be called from any thread."""
    adopt: Callable[[int], None]
    """Called with the ID of the started process, which leads a group: from then on the runtime ensures that it ends."""
    release: Callable[[int], None]
    """Called with the ID when the process has ended."""


class ContainerUser(msgspec.Struct, frozen=True):
    """The IDs of the user that a container's first process has, and of its groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class ContainerIdentity(msgspec.Struct, frozen=True):
    """A container as a pod's status names it."""

    container_id: str
    """The runtime and the container's ID in it, as in `docker://ID`: unique for each attempt to run a container."""
    image_id: str = ""
    """The ID of its image; empty if it has no image."""
    user: ContainerUser | None = None
    """None if it isn't known."""


class ContainerProcess(Protocol):
    """A started container. Thread-safe; once it has ended, calls have no effect, and there are no stacks."""

    identity: ContainerIdentity

    def terminate(self) -> None:
        """Send SIGTERM to the container."""

    def kill(self) -> None:
        """Send SIGKILL to all processes of the container."""

    def stacks(self) -> str:
        """Return the stacks of the threads of its Python processes, or a sentence why there are none; may block."""


class Runtime(Protocol):
    """Starts containers. Thread-safe."""

    network: LoopbackNetwork
    """The ports of this machine that replace the ports of services."""
    peaks: PeakMemory
    """The peak memory of containers, as far as the kernel or a measurement has reported it."""

    enforces_limits: bool
    """Whether containers get no more CPU and memory than their limits."""
    may_have_gpus: bool
    """Whether it may have GPUs that are invisible to this machine's NVML, as a remote engine may."""

    def start(self, host_service: HostService | None = None) -> None:
        """Acquire the runtime's resources. Called once, before any launch. Raises RuntimeUnavailable.

        Containers that have the address of `host_service` can reach it, if the runtime runs on this machine.
        """

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Ensure the requirements for the container's start; return the pod's IP address.

        `services` returns the names of the services that select the pod. Raises StartLater, LaunchError.
        """

    def reserve(self, pod: LocalPod, mounts: Sequence[Mount]) -> None:
        """Reserve the mount paths of a container's volumes for its pod.

        Raises StartLater while another pod has a path.
        """

    def launch(self, run: ContainerStart, on_exit: OnExit, warn: Callable[[str, str], None]) -> ContainerProcess:
        """Start a container. Raises LaunchError.

        `warn(reason, message)` is called for each optional feature that the container asks for and can't have.
        """

    def beside(self, pod: LocalPod, container: str, command: Sequence[str]) -> Beside:
        """Return how to run a command beside a container. Raises LaunchError with instructions for the user."""

    def measure(self) -> Sequence[Measurement]:
        """Return the usage of all running containers so far, except those that can't be measured or have ended.

        Never raises. May block, since it reads files or calls an engine. Only one thread may call it at a time.
        """

    def release_pod(self, pod: LocalPod) -> None:
        """Release the resources of a pod that has ended."""

    def stop(self) -> None:
        """Release all resources; running containers are killed. Idempotent."""
