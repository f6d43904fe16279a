"""The machine's replacement of a container's image: an environment, programs by name, and GPUs."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfoperator.api.names import CHECKPOINT_VARIABLE, CHECKPOINT_VOLUME, WORKDIR_SOURCE_VOLUME, WORKDIR_VOLUME
from tfoperator.api.progress_names import CA_VARIABLE, PROGRESS_VOLUME, TOKEN_VARIABLE
from tfoperator.local.runtime.loopback_network import LoopbackNetwork
from tfoperator.local.runtime.process.mount_links import MountLinks
from tfoperator.local.runtime.process.stacks import stacks_folder
from tfoperator.local.runtime.protocol import ContainerStart, LaunchError, LocalPod, Mount, host_name, real_path
from tfoperator.progress.stacks import STACKS_VARIABLE

MOUNT_VARIABLE = "TFOPERATOR_MOUNT_"
"""Followed by a volume's name, in capitals and with `_` for `-`: the path of the volume's content."""


_MAX_TMPDIR = 60
"""Bytes: a socket's path has at most 108, 104 on macOS, and multiprocessing appends 32 to its folder's path."""


class HostEnvironment:
    """The environment of every container of a runtime on this machine. Thread-safe."""

    def __init__(
        self, environ: Mapping[str, str], work_dir: Path, network: LoopbackNetwork, links: MountLinks, mark: str
    ) -> None:
        """`environ` is inherited; `mark` is the runtime's secret, which the names of links contain as a hash."""
        self._environ = _base_environment(environ)
        self._work_dir = work_dir
        self._network = network
        self._links = links
        self._mark = mark

    def environment(self, run: ContainerStart, warn: Callable[[str, str], None]) -> dict[str, str]:
        """Return the variables of a container, and make its mounts where possible. Raises NoFreePort."""
        namespace = run.pod.metadata.namespace
        environment = dict(self._environ)
        environment[STACKS_VARIABLE] = str(stacks_folder(run.log.path))
        if not run.pod.spec.host_network:
            environment["HOSTNAME"] = host_name(run.pod)
        for mount in run.mounts:
            environment[_mount_variable(mount)] = str(mount.source)
        # A mount below another one's path comes after that one, whatever their order in the manifest.
        for mount in sorted(run.mounts, key=lambda one: len(Path(one.mount_path).parts)):
            if mount.name in (PROGRESS_VOLUME, WORKDIR_VOLUME, WORKDIR_SOURCE_VOLUME):  # found by their variables
                continue
            if mount.mount_path.rstrip("/") == "/tmp":
                environment["TMPDIR"] = str(self._temporary(run.pod, mount.source))
            else:
                self._link(run.pod, mount, warn)
        for name, value in run.environment.items():
            environment[name] = self._network.rewrite(value, namespace, run.services)
        for mount in run.mounts:
            if mount.name == CHECKPOINT_VOLUME:
                # The volume's real path, since the mount path may not exist.
                environment[CHECKPOINT_VARIABLE] = str(mount.source)
            elif mount.name == PROGRESS_VOLUME:
                for name in (CA_VARIABLE, TOKEN_VARIABLE):
                    environment[name] = real_path(environment.get(name, ""), run.mounts)
        if run.gpus is not None:
            environment[CUDA_VISIBLE_DEVICES] = visible_devices(run.gpus, run.environment.get(CUDA_VISIBLE_DEVICES))
        return environment

    def _temporary(self, pod: LocalPod, volume: Path) -> Path:
        """Return the volume, by a path that is short enough for sockets: a link to it, if its own path is too long."""
        if len(os.fsencode(volume)) <= _MAX_TMPDIR:
            return volume
        # No other user can know this name, and put a link in its place.
        digest = hashlib.sha256(f"{self._mark} {volume}".encode(errors="surrogateescape")).hexdigest()
        link = Path(tempfile.gettempdir(), f"tfo-{digest[:16]}")
        return volume if self._links.make(pod.metadata.uid, link, volume) else link

    def directory(self, run: ContainerStart, warn: Callable[[str, str], None]) -> Path:
        """Return the container's working directory."""
        wanted = run.container.working_dir
        if not wanted:
            return self._work_dir
        directory = self._work_dir / wanted
        if directory.is_dir():
            return directory
        warn("WorkingDirMissing", f"workingDir {wanted} does not exist on this machine, using {self._work_dir}")
        return self._work_dir

    def _link(self, pod: LocalPod, mount: Mount, warn: Callable[[str, str], None]) -> None:
        path = Path(mount.mount_path)
        if path == mount.source:
            return
        problem = self._links.make(pod.metadata.uid, path, mount.source)
        if not problem:
            return
        warn(
            "MountUnavailable",
            f"volume {mount.name!r} can't appear at {path} ({problem}); its path is in the environment variable "
            f"{_mount_variable(mount)}",
        )


def with_log_dir(argument: str, mounts: Sequence[Mount]) -> str:
    """Return TensorBoard's argument with the real path of the log directory: its mount path may not exist."""
    name, equals, path = argument.partition("=")
    return f"{name}={real_path(path, mounts)}" if equals and name == "--logdir" else argument


def _mount_variable(mount: Mount) -> str:
    return MOUNT_VARIABLE + mount.name.upper().replace("-", "_")


def _base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the inherited environment: this machine's, our interpreter first on PATH, unbuffered output."""
    base = {name: value for name, value in environ.items() if name not in ("TF_CONFIG", "KUBECONFIG")}
    interpreter = str(Path(sys.executable).parent)
    others = [part for part in base.get("PATH", os.defpath).split(os.pathsep) if part != interpreter]
    base["PATH"] = os.pathsep.join([interpreter, *others])
    base.setdefault("PYTHONUNBUFFERED", "1")  # else the log of a Python program arrives in blocks of 8 KiB
    return base


def find_program(name: str, environment: Mapping[str, str], directory: Path) -> str:
    """Return the program's path. Raises LaunchError with a clear message: Popen's is ambiguous for a missing file."""
    if os.sep in name:
        path = directory / name
        if not path.exists():
            raise LaunchError(f"{name!r} does not exist (in {directory})")
        if not os.access(path, os.X_OK):
            raise LaunchError(f"{name!r} is not executable", 126)
        return str(path)
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None and name in ("python", "python3"):
        found = sys.executable
    if found is None and name == "tensorboard":
        raise LaunchError("TensorBoard is not installed on this machine; to have it: pip install tensorboard")
    if found is None:
        raise LaunchError(f"program {name!r} not found on PATH ({environment.get('PATH', os.defpath)})")
    return found


CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_NO_DEVICE = "-1"
"""An invalid index: CUDA shows the devices before the first invalid one. An empty value means the same to CUDA, but
some programs treat it as unset."""


def visible_devices(own: Sequence[str], asked: str | None = None) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES for a container with these devices.

    They are given by UUID, since CUDA and NVML count differently if the devices are of different kinds. `asked` is the
    manifest's value. As in a cluster, its indexes count the container's own devices, and it can't select any other.
    """
    if asked is None:
        return ",".join(own) or _NO_DEVICE
    return ",".join(own[position] for position in shown_devices(own, range(len(own)), asked)) or _NO_DEVICE


def shown_devices(uuids: Sequence[str], indexes: Sequence[int], value: str) -> list[int]:
    """Return the positions of the devices that CUDA shows with this value of CUDA_VISIBLE_DEVICES, in its order.

    As CUDA reads it: indexes, UUIDs, or unique prefixes of UUIDs; those after the first invalid one
    (`-1`, for example) are hidden.
    """
    shown: list[int] = []
    for part in (part.strip() for part in value.split(",")):
        if part.isascii() and part.isdigit() and len(part) < 4:
            matching = [position for position, index in enumerate(indexes) if index == int(part)]
        else:
            matching = [position for position, uuid in enumerate(uuids) if part[:4] == "GPU-" and uuid.startswith(part)]
        if len(matching) != 1 or matching[0] in shown:
            break
        shown += matching
    return shown
