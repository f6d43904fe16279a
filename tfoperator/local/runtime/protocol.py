"""What the node agent asks of a container runtime: of processes (`process`) or of Docker (`docker`)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

import msgspec

from tfoperator.kube.objects import HasMetadata, PodStatus
from tfoperator.kube.pod_spec import Container, FullPodSpec
from tfoperator.local.runtime.beneath import make_beneath
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.loopback_network import LoopbackNetwork
from tfoperator.local.runtime.measurements import Measurement, PeakMemory


class LocalPod(HasMetadata, frozen=True):
    """A pod with all of its spec that a runtime can honour."""

    spec: FullPodSpec = msgspec.field(default_factory=FullPodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


decode_pod = msgspec.json.Decoder(LocalPod).decode
"""Decodes one pod from JSON; raises msgspec.DecodeError if it isn't one."""


class Mount(msgspec.Struct, frozen=True):
    """One volume of one container: where its content lies, and where the container wants to see it."""

    name: str
    source: Path
    mount_path: str
    read_only: bool = False
    volume: Path | None = None
    """With a `subPath`: the whole volume, below which containers may have put links on the way to `source`."""

    def make_source(self) -> None:
        """Have something at `source`, if it is a part of a volume, and no link on the way. Raises UnsafePath."""
        if self.volume is not None:
            make_beneath(self.volume, str(self.source.relative_to(self.volume)))


def real_path(path: str, mounts: Sequence[Mount]) -> str:
    """Where a path of a container lies on this machine: in the innermost mount that it is below, else where it says."""
    wanted = PurePosixPath(path)
    for mount in sorted(mounts, key=lambda one: len(PurePosixPath(one.mount_path).parts), reverse=True):
        if wanted.is_relative_to(mount.mount_path):
            return str(mount.source / wanted.relative_to(mount.mount_path))
    return path


class HostService(msgspec.Struct, frozen=True):
    """Containers know it as `https://{name}:{port()}`.

    A runtime whose containers have networks of their own makes a socket that only one of these networks can reach, at
    this port, and gives it to `accept`, whose it is from then on. Both are called from any thread, once a pod runs that
    has been told of the service.
    """

    name: str
    port: Callable[[], int]
    accept: Callable[[socket.socket], object]


class OnExit(Protocol):
    """Called once, from a thread of the runtime, when a container has ended."""

    def __call__(self, code: int, reason: str = "") -> None:
        """`code` is 128 + the signal's number for a killed process; `reason` is given if it says more (OOMKilled)."""
        ...


class NotYet(Exception):
    """A container can't be started now: its image is being pulled, say. Ask again in `delay` seconds.

    `reason` and the message are those of a kubelet's waiting state, e.g. `ErrImagePull`. With `warn` it is worth an
    event.
    """

    def __init__(self, reason: str, message: str, delay: float, *, warn: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.delay = delay
        self.warn = warn


class LaunchError(Exception):
    """A container can't be started, now or later. `exit_code` follows the shell: 126 not executable, 127 not found.

    Both are below 128: the policy `ExitCode` rightly takes them as permanent.
    """

    def __init__(self, message: str, exit_code: int = 127) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class RuntimeUnavailable(Exception):
    """The runtime can't be had on this machine. The message says what to do."""


class ContainerStart(msgspec.Struct, frozen=True):
    """Everything that is needed to start a container once."""

    pod: LocalPod
    container: Container
    command: tuple[str, ...]
    """Command and arguments, expanded; empty when only the image knows its entry point."""
    environment: dict[str, str]
    mounts: tuple[Mount, ...]
    log: LogFile
    services: Collection[tuple[str, str]] = frozenset()
    """(namespace, name) of the services that exist."""
    args: tuple[str, ...] = ()
    """Arguments for the image's own entry point, expanded, where `command` is empty."""
    gpus: tuple[str, ...] | None = None
    """The UUIDs of the GPUs that are this container's alone; None where nothing is known of devices."""


class Beside(msgspec.Struct, frozen=True):
    """A command that is to run beside a container: what to start, and whom to tell of it."""

    program: str
    """Its path."""
    command: tuple[str, ...]
    environment: dict[str, str]
    directory: str
    alive: Callable[[], bool]
    """Whether the container still runs. Any thread may ask."""
    adopt: Callable[[int], None]
    """Called with the process id of what was started, which leads a group: now it is ended whatever happens."""
    release: Callable[[int], None]
    """Called with it when that has ended."""


class ContainerProcess(Protocol):
    """A started container. Thread-safe; once it has ended, nothing can be done to it, and there are no stacks."""

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        ...

    def kill(self) -> None:
        """End it, with everything that it has started (SIGKILL)."""
        ...

    def stacks(self) -> str:
        """The stacks of the threads of its Python processes, or a sentence that says why there are none; may block."""
        ...


class Runtime(Protocol):
    """Starts containers. Thread-safe."""

    network: LoopbackNetwork
    """The ports of this machine that stand for those of services."""
    peaks: PeakMemory
    """The most memory that containers had, as far as the kernel or a measurement has told."""

    enforces_limits: bool
    """Whether containers get no more CPU and memory than their limits say."""
    may_have_gpus: bool
    """Whether it may have GPUs that this machine's NVML doesn't show, as an engine elsewhere may."""

    def start(self) -> None:
        """Acquire what it needs. Called once, before any launch. Raises RuntimeUnavailable."""
        ...

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Have what a start of the container needs; returns the pod's IP address. Raises NotYet, LaunchError.

        `services` are the names of those that select the pod.
        """
        ...

    def launch(self, run: ContainerStart, on_exit: OnExit, warn: Callable[[str, str], None]) -> ContainerProcess:
        """Start a container. Raises LaunchError.

        `warn(reason, message)` is called for what the container wants and can't have, but may do without.
        """
        ...

    def beside(self, pod: LocalPod, container: str, command: Sequence[str]) -> Beside:
        """How to run a command beside a container of the pod. Raises LaunchError, whose message says what to do."""

    def measure(self) -> Sequence[Measurement]:
        """What every container that runs has used so far. One that can't be measured, or has ended, is left out.

        Never raises. May take a moment, for it reads files or asks an engine. One thread calls it at a time.
        """
        ...

    def release_service(self, namespace: str, name: str) -> None:
        """A service is gone: give back what was held for it."""
        ...

    def release_pod(self, pod: LocalPod) -> None:
        """A pod is over: give back what was held for it."""
        ...

    def stop(self) -> None:
        """Give everything back; whatever still runs is killed. Idempotent."""
        ...
