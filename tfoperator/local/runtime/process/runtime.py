"""The process runtime: every container is a process of this machine, in its own session and process group.

- The programs of this machine replace the image. `python` is the interpreter that runs tfoperator.
- A container inherits the agent's environment. In the environment and the arguments, only service addresses are
  rewritten (see `loopback_network`).
- A container starts in the agent's working directory, unless the directory `workingDir` exists here.
- If the machine permits it, a container's volumes are mounted in a mount namespace of its own. Otherwise they are
  symbolic links (see `namespaces` and `linked_volumes`).
- When the first process of a container ends, the other processes of its group are killed, as the kernel does in a PID
  namespace.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
import secrets
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.api.replicas.names import LABEL_TENSORBOARD
from tfoperator.base.private_files import private_folder
from tfoperator.kube.views.pod_spec import Container
from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE
from tfoperator.local.runtime.loopback_network import LOOPBACK, LoopbackNetwork, NoFreePort
from tfoperator.local.runtime.measurements import ContainerName, Measurement, PeakMemory
from tfoperator.local.runtime.process.cleanup.guardian import GroupGuardian, Stragglers, kill_stragglers
from tfoperator.local.runtime.process.cleanup.records import (
    kill_left_behind,
    kill_recorded,
    record_group,
    record_owner,
    remove_record,
    remove_records,
)
from tfoperator.local.runtime.process.groups.control_groups import (
    ContainerGroup,
    ControlGroups,
    GroupLimits,
    open_control_groups,
)
from tfoperator.local.runtime.process.groups.process_group import ProcessGroup
from tfoperator.local.runtime.process.groups.process_usage import ProcessMeter
from tfoperator.local.runtime.process.mounts.linked_volumes import LinkedVolumes
from tfoperator.local.runtime.process.mounts.namespaces import Namespaces, enter_command
from tfoperator.local.runtime.process.programs import HostEnvironment, find_program, placed_mounts, with_log_dir
from tfoperator.local.runtime.process.starter import Starter
from tfoperator.local.runtime.protocol import (
    ContainerIdentity,
    ContainerStart,
    ContainerUser,
    HostService,
    LaunchError,
    LocalPod,
    Mount,
    OnExit,
    SideCommand,
)

logger = logging.getLogger(__name__)

OOM_KILLED = "OOMKilled"
"""The reason that a kubelet reports for a container that ran out of memory."""
_KILLED_CODE = 137  # 128 + SIGKILL


class _Place(NamedTuple):
    """The facts about a running container that are needed to run another command in it (`ProcessRuntime.beside`)."""

    process: ProcessGroup
    environment: dict[str, str]
    directory: Path
    has_namespace: bool


class ProcessRuntime:
    """Starts containers as processes. Thread-safe.

    - A container without a usable `workingDir` starts in `work_dir`, by default the current directory.
    - Containers inherit `environ`.
    - With `enforce_limits`, each container gets at most the CPU and memory of its limits.
    - Without `mount_namespaces`, volumes are symbolic links, as on a machine that permits no namespaces.
    - `records` is a directory. It has a file for each living process group, for each link and for each mount point.
      After a crash, `kill_recorded` reads these files.
    """

    def __init__(
        self,
        *,
        records: Path,
        work_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        enforce_limits: bool = False,
        mount_namespaces: bool = True,
    ) -> None:
        self.network = LoopbackNetwork()
        self.peaks = PeakMemory()
        self.enforces_limits = enforce_limits
        self._groups: ControlGroups | None = None
        self._attempts = itertools.count()
        self.may_have_gpus = False
        self._records = records
        self._mark = secrets.token_hex(8)
        self._stragglers = Stragglers()
        self._guardian = GroupGuardian(records, self._mark)
        self._meter = ProcessMeter()
        self._work_dir = (work_dir or Path.cwd()).resolve()
        self._namespaces = Namespaces(records, self._work_dir, wanted=mount_namespaces)
        self._linked = LinkedVolumes(records, self._mark, lambda: self._namespaces.refusal)
        self._host = HostEnvironment(os.environ if environ is None else environ, self._work_dir, self.network)
        self._lock = threading.Lock()  # guards _running and _places
        self._running: dict[ProcessGroup, ContainerStart] = {}
        self._places: dict[tuple[str, str], _Place] = {}  # by pod UID and container name

    def start(self, host_service: HostService | None = None) -> None:
        """End the processes of killed runs, and start the guardian.

        The directories of killed runs lie in the folder that contains this run's directory. Processes reach
        `host_service` at the loopback address. Raises RuntimeUnavailable if limits must be enforced but this machine
        can't enforce them.
        """
        del host_service
        if self.enforces_limits:
            self._groups = open_control_groups()
        private_folder(self._records)
        for name in (*kill_recorded(self._records), *kill_left_behind(self._records.parent.parent)):
            logger.warning("killed %s, which a killed run had left running", name)
        self._guardian.start()
        record_owner(self._records, self._guardian.pid, self._mark)

    def stop(self) -> None:
        """Kill running containers, wait up to 10 s for each to end, and release ports, links and mount points."""
        with self._lock:
            running = tuple(self._running)
        for process in running:
            process.kill()
        for process in running:
            process.join(10.0)
        kill_stragglers(self._mark)
        self._guardian.stop()
        if self._groups is not None:
            self._groups.close()
        self._linked.close()
        self._namespaces.close()
        self.network.close()
        remove_records(self._records)

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Return the loopback address as the pod's IP address. Prepare nothing, because a process needs no image."""
        del pod, container, services
        return LOOPBACK

    def reserve(self, pod: LocalPod, mounts: Sequence[Mount]) -> None:
        """Make links at the mount paths, unless containers have mount namespaces; see `Runtime.reserve`."""
        placed = placed_mounts(mounts)
        if placed and self._namespaces.refusal:
            self._linked.reserve(pod, placed)

    def launch(self, run: ContainerStart, on_exit: OnExit, warn: Callable[[str, str], None]) -> ProcessGroup:
        """Start the container's process; see `Runtime.launch`."""
        if not run.command:
            raise LaunchError(
                f"container {run.container.name!r} has no command, and the process runtime does not read the command "
                f"from the image {run.container.image!r}: set `command`, or use --runtime docker"
            )
        placed = placed_mounts(run.mounts)
        has_namespace = bool(placed) and not self._namespaces.refusal
        try:
            command = self._command(run)
            if has_namespace:
                temporary = {"TMPDIR": "/tmp"} if any(mount.replaces_tmp for mount in placed) else {}
            else:
                temporary = self._linked.variables(run.pod, placed, warn)
            environment = self._host.environment(run, temporary)
        except NoFreePort as error:
            raise LaunchError(str(error)) from None
        mark = environment[CONTAINER_VARIABLE] = f"{self._mark}.{next(self._attempts)}"
        group = self._group(run)
        starter = Starter(run, command, environment, self._host.directory(run), self._work_dir, group, warn)
        try:
            if has_namespace:
                popen = starter.start_in_namespace(self._namespaces.arguments(run.pod, placed))
            else:
                popen = starter.start()
        except LaunchError:
            if group is not None:
                group.remove()
            raise

        def exited(code: int) -> None:
            peak, reason = process.peak_memory, ""
            if group is not None:
                reason = OOM_KILLED if code == _KILLED_CODE and group.out_of_memory else ""
                peak = group.peak_memory or peak  # the memory limit applies to this value
                group.remove()
            run.log.peak_memory = peak or None
            self.peaks.note(_name(run), peak)
            on_exit(code, reason)

        process = ProcessGroup(
            popen, _identity(mark), _label(run), exited, functools.partial(self._ended, mark), run.log
        )
        with self._lock:
            self._running[process] = run
            self._places[run.pod.metadata.uid, run.container.name] = _Place(
                process, environment, starter.directory, has_namespace
            )
        self._adopt(process.pid, _label(run))
        process.start_waiting()
        return process

    def _command(self, run: ContainerStart) -> list[str]:
        """Return the container's command, with service addresses rewritten to addresses of this machine.

        Raises NoFreePort if a service gets no port on this machine.
        """
        command = [self.network.rewrite(part, run.pod.metadata.namespace, run.services) for part in run.command]
        if LABEL_TENSORBOARD in run.pod.metadata.labels:
            command = [with_log_dir(part, run.mounts) for part in command]
        return command

    def beside(self, pod: LocalPod, container: str, command: Sequence[str]) -> SideCommand:
        """Return how to run a command, for example of `kubectl exec`, with the container's environment and directory.

        The command gets a process group of its own. Raises LaunchError if the container is not running.
        """
        with self._lock:
            place = self._places.get((pod.metadata.uid, container))
        if place is None or not self._is_running(place.process):
            raise LaunchError(f"container {container!r} of pod {pod.metadata.name} is not running")
        label = f"{pod.metadata.key}/{container} exec"
        if place.has_namespace:
            command = enter_command(place.process.pid, place.directory, command)
        return SideCommand(
            program=find_program(command[0], place.environment, place.directory),
            command=tuple(command),
            environment=place.environment,
            directory="/" if place.has_namespace else str(place.directory),
            alive=lambda: self._is_running(place.process),
            adopt=lambda pid: self._adopt(pid, label),
            release=self._release,
        )

    def _is_running(self, process: ProcessGroup) -> bool:
        with self._lock:
            return process in self._running

    def _adopt(self, pid: int, label: str) -> None:
        self._guardian.add(pid)
        record_group(self._records, pid, label)

    def _release(self, pid: int) -> None:
        self._guardian.discard(pid)
        remove_record(self._records, pid)

    def measure(self) -> list[Measurement]:
        """Return the usage of all running containers; see `Runtime.measure`."""
        with self._lock:
            running = {process.pid: run for process, run in self._running.items()}
        return [
            Measurement(_name(running[pid]), str(pid), running[pid].pod.metadata.uid, *used)
            for pid, used in self._meter.measure(running).items()
        ]

    def release_pod(self, pod: LocalPod) -> None:
        """Remove the links and the mount points that only this pod needed."""
        self._linked.release(pod)
        self._namespaces.release(pod)
        with self._lock:
            for key in [key for key in self._places if key[0] == pod.metadata.uid]:
                del self._places[key]

    def _group(self, run: ContainerStart) -> ContainerGroup | None:
        """Return a control group if the container has limits and limits must be enforced, otherwise None.

        Raises LaunchError if the limits can't be set.
        """
        limits = _limits(run)
        if self._groups is None or limits == GroupLimits():
            return None
        try:
            return self._groups.make(str(next(self._attempts)), limits)
        except OSError as error:
            raise LaunchError(f"the limits of container {run.container.name!r} can't be set: {error}") from None

    def _ended(self, mark: str, process: ProcessGroup) -> None:
        self._stragglers.kill(mark)
        self._release(process.pid)
        with self._lock:
            self._running.pop(process, None)


def _limits(run: ContainerStart) -> GroupLimits:
    limits = (run.container.resources.limits or {}) if run.container.resources is not None else {}
    try:
        cpu, memory = (parse_quantity(limits[name]) if name in limits else None for name in ("cpu", "memory"))
    except ValueError as error:
        raise LaunchError(f"container {run.container.name!r}: resources: {error}") from None
    return GroupLimits(None if cpu is None else float(cpu), None if memory is None else int(memory))


def _name(run: ContainerStart) -> ContainerName:
    return ContainerName(run.pod.metadata.namespace, run.pod.metadata.name, run.container.name)


def _identity(mark: str) -> ContainerIdentity:
    """Return the identity of the container whose processes have the value `mark` in `CONTAINER_VARIABLE`.

    The container's processes run with this process's user and groups.
    """
    user = ContainerUser(os.getuid(), os.getgid(), tuple(sorted(os.getgroups()))) if sys.platform == "linux" else None
    return ContainerIdentity(f"process://{hashlib.sha256(mark.encode()).hexdigest()}", user=user)


def _label(run: ContainerStart) -> str:
    return f"{run.pod.metadata.key}/{run.container.name}"
