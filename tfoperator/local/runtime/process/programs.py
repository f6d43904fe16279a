"""The parts of this machine that replace a container's image: an environment, programs by name, and GPUs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfoperator.api.replicas.data_service import DATA_SERVICE, DATA_SERVICE_WORK_DIR
from tfoperator.api.replicas.names import (
    CHECKPOINT_VARIABLE,
    CHECKPOINT_VOLUME,
    TF_CONFIG,
    WORKDIR_SOURCE_VOLUME,
    WORKDIR_VOLUME,
)
from tfoperator.api.replicas.process_variables import (
    COORDINATOR_HOST,
    COORDINATOR_PORT,
    JAX_BIND_ADDRESS,
    JAX_COORDINATOR,
    PROCESS_VARIABLES,
)
from tfoperator.api.replicas.progress_names import CA_VARIABLE, PROGRESS_VOLUME, TOKEN_VARIABLE
from tfoperator.local.runtime.loopback_network import LOOPBACK, LoopbackNetwork
from tfoperator.local.runtime.process import container_main
from tfoperator.local.runtime.process.groups.stacks import stacks_folder
from tfoperator.local.runtime.protocol import ContainerStart, LaunchError, Mount, host_name, real_path
from tfoperator.progress.stacks import STACKS_VARIABLE

MOUNT_VARIABLE = "TFOPERATOR_MOUNT_"
"""The prefix of a variable's name. The volume's name follows, in capitals and with `_` for `-`:
`TFOPERATOR_MOUNT_TRAINING_DATA` for the volume `training-data`. The variable contains the path of the volume's content.
"""

_FOUND_BY_VARIABLES = (PROGRESS_VOLUME, WORKDIR_VOLUME, WORKDIR_SOURCE_VOLUME)
"""Volumes that the operator adds. Programs find the files of these volumes by variables, so these volumes need no mount
path.
"""

_NOT_INHERITED = {TF_CONFIG, DATA_SERVICE, "KUBECONFIG", JAX_BIND_ADDRESS, *PROCESS_VARIABLES}
"""Variables that containers don't inherit from this process. Such a variable would connect a container's program to
other processes, or to a cluster.
"""


class HostEnvironment:
    """The environment of every container of a runtime on this machine. Thread-safe."""

    def __init__(self, environ: Mapping[str, str], work_dir: Path, network: LoopbackNetwork) -> None:
        """`environ` is the environment that containers inherit."""
        self._environ = _base_environment(environ)
        self._work_dir = work_dir
        self._network = network

    def environment(self, run: ContainerStart, temporary: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a container, with service addresses rewritten to addresses of this machine.

        `temporary` is empty, or contains TMPDIR. Raises NoFreePort if a service gets no port on this machine.
        """
        namespace = run.pod.metadata.namespace
        environment = dict(self._environ)
        environment[STACKS_VARIABLE] = str(stacks_folder(run.log.path))
        if not run.pod.spec.host_network:
            environment["HOSTNAME"] = host_name(run.pod)
        for mount in run.mounts:
            environment[mount_variable(mount)] = str(mount.source)
        environment |= temporary
        for name, value in run.environment.items():
            environment[name] = self._network.rewrite(value, namespace, run.services)
        environment |= self._coordinator(run)
        for mount in run.mounts:
            if mount.name == CHECKPOINT_VOLUME:
                # The volume's real path, since the mount path may not exist.
                environment[CHECKPOINT_VARIABLE] = str(mount.source)
            elif mount.name == PROGRESS_VOLUME:
                for name in (CA_VARIABLE, TOKEN_VARIABLE):
                    environment[name] = real_path(environment.get(name, ""), run.mounts)
        if journal := run.environment.get(DATA_SERVICE_WORK_DIR):
            environment[DATA_SERVICE_WORK_DIR] = real_path(journal, run.mounts)
        if run.gpus is not None:
            environment[CUDA_VISIBLE_DEVICES] = visible_devices(run.gpus, run.environment.get(CUDA_VISIBLE_DEVICES))
        return environment

    def _coordinator(self, run: ContainerStart) -> dict[str, str]:
        """Return the variables for JAX's coordinator, with the coordinator's address on this machine.

        The address consists of two variables, the host and the port. So it can only be rewritten if both are read
        together. By default, JAX listens on every network interface. Here it listens only at the loopback address, as
        all other servers do.
        """
        given, namespace = run.environment, run.pod.metadata.namespace
        variables = {}
        address = f"{given.get(COORDINATOR_HOST, '')}:{given.get(COORDINATOR_PORT, '')}"
        rewritten = self._network.rewrite(address, namespace, run.services)
        if rewritten != address:
            variables[COORDINATOR_HOST], _, variables[COORDINATOR_PORT] = rewritten.rpartition(":")
        coordinator = self._network.rewrite(given.get(JAX_COORDINATOR, ""), namespace, run.services)
        if coordinator.startswith(f"{LOOPBACK}:") and JAX_BIND_ADDRESS not in given:
            variables[JAX_BIND_ADDRESS] = coordinator
        return variables

    def directory(self, run: ContainerStart) -> Path:
        """Return the container's working directory, which may not exist."""
        return self._work_dir / run.container.working_dir if run.container.working_dir else self._work_dir


def placed_mounts(mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return the mounts that must exist at their mount path.

    Leave out the volumes that the operator adds to a pod: a variable contains the path of each of these volumes.
    """
    return tuple(mount for mount in mounts if mount.name not in _FOUND_BY_VARIABLES)


def with_log_dir(argument: str, mounts: Sequence[Mount]) -> str:
    """Return an argument of TensorBoard. In `--logdir=PATH`, PATH becomes the path of the directory on this machine.

    The reason: the mount path in the manifest may not exist here. Any other argument stays unchanged.
    """
    name, equals, path = argument.partition("=")
    return f"{name}={real_path(path, mounts)}" if equals and name == "--logdir" else argument


def mount_variable(mount: Mount) -> str:
    """Return the name of the variable that contains the path of a volume's content."""
    return MOUNT_VARIABLE + mount.name.upper().replace("-", "_")


def _base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that every container inherits.

    The environment has the variables of `environ`, except variables that would connect programs to other processes or
    to a cluster, such as TF_CONFIG. The folder of this interpreter is the first on PATH, and a setting for Python
    switches off the buffering of output.
    """
    base = {name: value for name, value in environ.items() if name not in _NOT_INHERITED}
    interpreter = str(Path(sys.executable).parent)
    others = [part for part in base.get("PATH", os.defpath).split(os.pathsep) if part != interpreter]
    base["PATH"] = os.pathsep.join([interpreter, *others])
    base.setdefault("PYTHONUNBUFFERED", "1")  # else the log of a Python program arrives in blocks of 8 KiB
    return base


def find_program(name: str, environment: Mapping[str, str], directory: Path) -> str:
    """Return the program's path.

    Raises LaunchError, which names the missing file. The error that Popen raises does not show which file is missing.
    """
    try:
        return container_main.find_program(name, environment, str(directory))
    except container_main.ProgramError as error:
        raise LaunchError(str(error), error.exit_code) from None


CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_NO_DEVICE = "-1"
"""An index that is never valid. CUDA shows only the devices that come before the first invalid index, so with this
value it shows no device. An empty value means the same to CUDA, but some programs treat it as unset.
"""


def visible_devices(own: Sequence[str], asked: str | None = None) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES for a container with these devices.

    The devices are given by UUID, because CUDA and NVML number devices differently if the machine has several kinds of
    devices. `asked` is the value of CUDA_VISIBLE_DEVICES in the manifest. As in a cluster, the indexes in `asked` count
    only the container's own devices, and `asked` can select only these devices. If no device is left, return `-1`, with
    which CUDA shows no device.
    """
    if asked is None:
        return ",".join(own) or _NO_DEVICE
    return ",".join(own[position] for position in shown_devices(own, range(len(own)), asked)) or _NO_DEVICE


def shown_devices(uuids: Sequence[str], indexes: Sequence[int], value: str) -> list[int]:
    """Return the positions of the devices that CUDA shows with this value of CUDA_VISIBLE_DEVICES, in CUDA's order.

    `uuids` and `indexes` contain the UUID and the index of each device. A position is a position in these sequences.
    The value is read as CUDA reads it: it contains indexes, UUIDs, or unique prefixes of UUIDs. CUDA hides the devices
    after the first invalid entry (`-1`, for example).
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
