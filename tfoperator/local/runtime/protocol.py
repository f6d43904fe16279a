"""The interface between the node agent and a container runtime.

There are runtimes for processes (`process`) and for Docker containers (`docker`).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from tfoperator.kube.views.objects import HasMetadata
from tfoperator.kube.views.pod_spec import Container, FullPodSpec
from tfoperator.kube.views.pod_status import PodStatus
from tfoperator.local.runtime.beneath import make_beneath
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.loopback_network import LoopbackNetwork
from tfoperator.local.runtime.measurements import Measurement, PeakMemory


class LocalPod(HasMetadata, frozen=True):
    """A pod with all fields of its spec that a runtime supports."""

    spec: FullPodSpec = msgspec.field(default_factory=FullPodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


decode_pod = msgspec.json.Decoder(LocalPod).decode
"""Decodes a pod from JSON. Raises msgspec.DecodeError if the JSON is invalid."""


def host_name(pod: LocalPod) -> str:
    """Return the pod's `hostname`, or its name if it has none, cut to 63 characters as a kubelet does."""
    return re.sub(r"[^a-z0-9]+$", "", (pod.spec.hostname or pod.metadata.name)[:63])


class Mount(msgspec.Struct, frozen=True):
    """A volume of a container: the path of the volume's content on this machine, and the path in the container."""

    name: str
    source: Path
    mount_path: str
    read_only: bool = False
    volume: Path | None = None
    """The path of the whole volume if the mount has a `subPath`. Containers may have put links at the components of
    `source` below this path.
    """

    @property
    def replaces_tmp(self) -> bool:
        """Whether this mount replaces the folder for temporary files."""
        return self.mount_path.rstrip("/") == "/tmp"

    def make_source(self) -> None:
        """If the mount has a `subPath`, ensure that `source` exists, and that no link leads out of the volume.

        Raises UnsafePath if a link leads out of the volume.
        """
        if self.volume is not None:
            make_beneath(self.volume, str(self.source.relative_to(self.volume)))


def real_path(path: str, mounts: Sequence[Mount]) -> str:
    """Return the path on this machine for a path in a container.

    The innermost mount that contains the path determines the result. A path outside of all mounts stays unchanged.
    """
    wanted = PurePosixPath(path)
    for mount in sorted(mounts, key=lambda mount: len(PurePosixPath(mount.mount_path).parts), reverse=True):
        if wanted.is_relative_to(mount.mount_path):
            return str(mount.source / wanted.relative_to(mount.mount_path))
    return path


class HostService(msgspec.Struct, frozen=True):
    """A service of this process that containers reach as `https://{name}:{port}`.

    If the containers of a runtime have their own networks, the runtime makes a socket at this port for each network.
    Only the containers of this network can reach the socket. The runtime passes each socket to `accept`, which then
    owns it. The runtime calls `accept` from any thread, before the first pod of the network that uses the service
    starts.
    """

    name: str
    port: int
    accept: Callable[[socket.socket], object]


OnExit = Callable[[int, str], object]
"""A callback with (code, reason). A thread of the runtime calls it once, when a container has ended.

For a killed process, the code is 128 + the signal's number. The reason is set if the runtime has one (OOMKilled)."""


class StartLater(Exception):
    """A container can't be started now: its image is being pulled, for example. Retry in `delay` seconds.

    `reason` and the message are the same as in the waiting state that a kubelet reports, e.g. `ErrImagePull`. If
    `event` is set, the caller records a warning event with this reason.
    """

    def __init__(self, reason: str, message: str, delay: float, *, event: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.delay = delay
        self.event = event


class LaunchError(Exception):
    """A container can't be started, now or later. `exit_code` follows the shell: 126 not executable, 127 not found.

    The restart policy `ExitCode` treats codes below 128 as permanent. So the operator does not restart the replica.
    """

    def __init__(self, message: str, exit_code: int = 127) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RuntimeUnavailable(Exception):
    """The runtime is not available on this machine. The message contains instructions for the user."""


class ContainerStart(msgspec.Struct, frozen=True):
    """All inputs of one start of a container."""

    pod: LocalPod
    container: Container
    command: tuple[str, ...]
    """Command and arguments with their variables expanded. It is empty if the image's entry point is used."""
    environment: dict[str, str]
    mounts: tuple[Mount, ...]
    log: LogFile
    services: Collection[tuple[str, str]] = frozenset()
    """(namespace, name) of each service that exists."""
    args: tuple[str, ...] = ()
    """Arguments for the image's entry point with their variables expanded, if `command` is empty."""
    gpus: tuple[str, ...] | None = None
    """The UUIDs of the GPUs that only this container uses. It is None if the devices are unknown."""


class SideCommand(msgspec.Struct, frozen=True):
    """A command that runs in a container in addition to the container's program, for example for `kubectl exec`.

    The object contains the data to start the command, and callbacks for the command's process.
    """

    program: str
    """The path of the command's program."""
    command: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    alive: Callable[[], bool]
    """Returns whether the container is still running. Any thread may call it."""
    adopt: Callable[[int], None]
    """Called with the ID of the started process, which leads a process group. From then on, the runtime ensures that
    the group ends.
    """
    release: Callable[[int], None]
    """Called with the ID of the process when the process has ended."""


class ContainerUser(msgspec.Struct, frozen=True):
    """The user ID of a container's first process, and the IDs of its groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class ContainerIdentity(msgspec.Struct, frozen=True):
    """The identity of a container, as the pod's status shows it."""

    container_id: str
    """The runtime and the container's ID in this runtime, as in `docker://ID`. Each attempt to run a container has its
    own ID.
    """
    image_id: str = ""
    """The ID of the container's image. It is empty if the container has no image."""
    user: ContainerUser | None = None
    """The user of the container's first process. It is None if the user isn't known."""


class ContainerProcess(Protocol):
    """A started container.

    Thread-safe. After the container has ended, calls have no effect and `stacks` returns no stacks.
    """

    identity: ContainerIdentity

    def terminate(self) -> None:
        """Send SIGTERM, or the stop signal of the image, to the container."""

    def kill(self) -> None:
        """Send SIGKILL to all processes of the container."""

    def stacks(self) -> str:
        """Return the stacks of the threads of the container's Python processes, or a sentence that explains why
        there are none.
        """


class Runtime(Protocol):
    """Starts containers. Thread-safe."""

    network: LoopbackNetwork
    """The ports of this machine that replace the ports of services."""
    peaks: PeakMemory
    """The peak memory of containers, as far as the kernel has reported it or the runtime has measured it."""

    enforces_limits: bool
    """Whether the runtime limits each container to the CPU and memory of the container's limits."""
    may_have_gpus: bool
    """Whether the runtime may have GPUs that this machine's NVML does not show, as a remote Docker engine may."""

    def start(self, host_service: HostService | None = None) -> None:
        """Acquire the runtime's resources. Called once, before the first `launch`. Raises RuntimeUnavailable.

        A container can reach `host_service` if the container runs on this machine (not on a remote Docker host), and if
        its environment contains the address of the service.
        """

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Ensure that the container can start (its image is present, for example); return the pod's IP address.

        `services` returns the names of the services that select the pod. Raises StartLater or LaunchError.
        """

    def reserve(self, pod: LocalPod, mounts: Sequence[Mount]) -> None:
        """Reserve the mount paths of a container's volumes for its pod, if all pods share one file system.

        Raises StartLater while another pod uses one of the mount paths.
        """

    def launch(self, run: ContainerStart, on_exit: OnExit, warn: Callable[[str, str], None]) -> ContainerProcess:
        """Start a container. Raises LaunchError.

        `warn(reason, message)` is called for each optional feature that the container requests and that the runtime
        can't provide.
        """

    def beside(self, pod: LocalPod, container: str, command: Sequence[str]) -> SideCommand:
        """Return how to run a command in a container in addition to the container's program: see `SideCommand`.

        Raises LaunchError if the command can't be run. The message contains instructions for the user.
        """

    def measure(self) -> Sequence[Measurement]:
        """Return the usage of all running containers: the CPU time since their start, and their present memory.

        Containers that have ended or can't be measured are left out. Never raises. The call may block, because it reads
        files or calls an engine. Only one thread at a time may call it.
        """

    def release_pod(self, pod: LocalPod) -> None:
        """Release the resources of a pod that has ended."""

    def stop(self) -> None:
        """Kill the running containers and release all resources. Idempotent."""
