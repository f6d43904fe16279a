"""The process runtime: every container is a process of this machine, in a session and process group of its own.

The machine takes the image's place: a container inherits the agent's environment, finds the interpreter that runs
tfoperator as `python`, and starts in the directory that the agent was started in unless its `workingDir` exists here.
Only service addresses are rewritten (see `loopback_network`). When the first process of a container ends, the rest of
its group is killed, as the kernel does.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import os
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tfoperator.api.names import CHECKPOINT_VARIABLE, CHECKPOINT_VOLUME, LABEL_TENSORBOARD
from tfoperator.api.progress_names import CA_VARIABLE, PROGRESS_VOLUME, TOKEN_VARIABLE
from tfoperator.api.quantity import parse_quantity
from tfoperator.kube.pod_spec import Container
from tfoperator.local.private_files import private_folder
from tfoperator.local.runtime.guardian import CONTAINER_VARIABLE
from tfoperator.local.runtime.loopback_network import LOOPBACK, LoopbackNetwork, NoFreePort
from tfoperator.local.runtime.measurements import ContainerName, Measurement, PeakMemory
from tfoperator.local.runtime.process.control_groups import (
    ContainerGroup,
    ControlGroups,
    GroupLimits,
    open_control_groups,
)
from tfoperator.local.runtime.process.guardian import GroupGuardian, Stragglers, kill_stragglers
from tfoperator.local.runtime.process.mount_links import MountLinks
from tfoperator.local.runtime.process.process_group import ProcessGroup
from tfoperator.local.runtime.process.process_usage import ProcessMeter
from tfoperator.local.runtime.process.programs import (
    CUDA_VISIBLE_DEVICES,
    base_environment,
    find_program,
    visible_devices,
)
from tfoperator.local.runtime.process.records import (
    kill_left_behind,
    kill_recorded,
    record_group,
    record_owner,
    remove_record,
    remove_records,
)
from tfoperator.local.runtime.process.stacks import stacks_folder
from tfoperator.local.runtime.protocol import Beside, ContainerStart, LaunchError, LocalPod, Mount, OnExit, real_path
from tfoperator.progress.stacks import STACKS_VARIABLE

logger = logging.getLogger(__name__)

OOM_KILLED = "OOMKilled"
"""The kubelet's reason for the end of a container that ran out of memory."""
_KILLED = 137  # 128 + SIGKILL
MOUNT_VARIABLE = "TFOPERATOR_MOUNT_"
"""Followed by a volume's name, in capitals and with `_` for `-`: where the content of the volume lies."""


_LONGEST_TMPDIR = 60
"""Bytes: a socket's path has 108 at most, 104 on macOS, and multiprocessing puts 32 behind that of its folder."""


class _Place(NamedTuple):
    """Where a container runs."""

    process: ProcessGroup
    environment: dict[str, str]
    directory: Path


class ProcessRuntime:
    """Starts containers as processes. Thread-safe.

    `work_dir` is where containers without a (usable) workingDir start, by default the current directory.
    `environ` is what they inherit. With `enforce_limits` each has no more CPU and memory than its limits say. `records`
    is a directory in which each living process group has a file, for `kill_recorded` after a crash, and each link.
    """

    def __init__(
        self,
        *,
        records: Path,
        work_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        enforce_limits: bool = False,
    ) -> None:
        self.network = LoopbackNetwork()
        self.peaks = PeakMemory()
        self.enforces_limits = enforce_limits
        self._groups: ControlGroups | None = None
        self._attempts = itertools.count()
        self.may_have_gpus = False
        self._records = records
        self._work_dir = (work_dir or Path.cwd()).resolve()
        self._environ = base_environment(os.environ if environ is None else environ)
        self._mark = secrets.token_hex(8)
        self._stragglers = Stragglers()
        self._guardian = GroupGuardian(records, self._mark)
        self._meter = ProcessMeter()
        self._links = MountLinks(records)
        self._lock = threading.Lock()  # guards _running and _places
        self._running: dict[ProcessGroup, ContainerStart] = {}
        self._places: dict[tuple[str, str], _Place] = {}  # by pod uid and container's name

    def start(self) -> None:
        """End what killed runs beside this one have left, and start the guardian.

        Raises RuntimeUnavailable if limits are to be enforced and can't be.
        """
        if self.enforces_limits:
            self._groups = open_control_groups()
        private_folder(self._records)
        for name in (*kill_recorded(self._records), *kill_left_behind(self._records.parent.parent)):
            logger.warning("killed %s, left behind by a run that was killed", name)
        self._guardian.start()
        record_owner(self._records, self._guardian.pid, self._mark)

    def stop(self) -> None:
        """Kill what still runs, wait for its end, and give back ports and links."""
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
        self._links.close()
        self.network.close()
        remove_records(self._records)

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Nothing: the machine is there."""
        del pod, container, services
        return LOOPBACK

    def launch(self, run: ContainerStart, on_exit: OnExit, warn: Callable[[str, str], None]) -> ProcessGroup:
        """Start the container's process; see `Runtime.launch`."""
        if not run.command:
            raise LaunchError(
                f"container {run.container.name!r} has no command, and the process runtime can't know what the image "
                f"{run.container.image!r} would run: set `command`, or let it run there with --runtime docker"
            )
        namespace = run.pod.metadata.namespace
        try:
            command = [self.network.rewrite(part, namespace, run.services) for part in run.command]
            if LABEL_TENSORBOARD in run.pod.metadata.labels:
                command = [_with_log_dir(part, run.mounts) for part in command]
            environment = self._environment(run, warn)
        except NoFreePort as error:
            raise LaunchError(str(error)) from None
        mark = environment[CONTAINER_VARIABLE] = f"{self._mark}.{next(self._attempts)}"
        directory = self._directory(run, warn)
        program = find_program(command[0], environment, directory)
        group = self._group(run)
        if group is not None:
            command = group.command(program, command[1:])
            program = command[0]
        with run.log.path.open("ab") as output:
            try:
                popen = subprocess.Popen(
                    command,
                    executable=program,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=directory,
                    env=environment,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                if group is not None:
                    group.remove()
                code = 126 if isinstance(error, PermissionError) else 127
                raise LaunchError(f"can't start {command[0]!r} in {directory}: {error}", code) from None

        def exited(code: int, reason: str = "") -> None:
            peak = process.peak_memory
            if group is not None:
                reason = OOM_KILLED if code == _KILLED and group.out_of_memory else reason
                peak = group.peak_memory or peak  # what its limit counts
                group.remove()
            run.log.peak_memory = peak or None
            self.peaks.note(_name(run), peak)
            on_exit(code, reason)

        process = ProcessGroup(popen, _label(run), exited, functools.partial(self._ended, mark), run.log)
        with self._lock:
            self._running[process] = run
            self._places[run.pod.metadata.uid, run.container.name] = _Place(process, environment, directory)
        self._adopt(process.pid, _label(run))
        process.start_waiting()
        return process

    def beside(self, pod: LocalPod, container: str, command: Sequence[str]) -> Beside:
        """The command in the container's environment and directory, in a process group of its own."""
        with self._lock:
            place = self._places.get((pod.metadata.uid, container))
        if place is None or not self._is_running(place.process):
            raise LaunchError(f"container {container!r} of pod {pod.metadata.name} does not run")
        label = f"{pod.metadata.key}/{container} exec"
        return Beside(
            program=find_program(command[0], place.environment, place.directory),
            command=tuple(command),
            environment=place.environment,
            directory=str(place.directory),
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
        """What every container that runs has used; see `Runtime.measure`."""
        with self._lock:
            running = {process.pid: run for process, run in self._running.items()}
        return [
            Measurement(_name(running[pid]), str(pid), running[pid].pod.metadata.uid, used.cpu_seconds, used.memory)
            for pid, used in self._meter.measure(running).items()
        ]

    def release_service(self, namespace: str, name: str) -> None:
        """Give back the service's loopback ports."""
        self.network.release(namespace, name)

    def release_pod(self, pod: LocalPod) -> None:
        """Remove the symbolic links that stood in for the pod's mounts."""
        self._links.release(pod.metadata.uid)
        with self._lock:
            for key in [key for key in self._places if key[0] == pod.metadata.uid]:
                del self._places[key]

    def _group(self, run: ContainerStart) -> ContainerGroup | None:
        """A control group, if the container has limits that are to be enforced. Raises LaunchError."""
        limits = _limits(run)
        if self._groups is None or limits == GroupLimits():
            return None
        try:
            return self._groups.make(str(next(self._attempts)), limits)
        except OSError as error:
            raise LaunchError(f"the limits of container {run.container.name!r} can't be set: {error}") from None

    def _environment(self, run: ContainerStart, warn: Callable[[str, str], None]) -> dict[str, str]:
        namespace = run.pod.metadata.namespace
        environment = dict(self._environ)
        environment[STACKS_VARIABLE] = str(stacks_folder(run.log.path))
        for mount in run.mounts:
            environment[_mount_variable(mount)] = str(mount.source)
        # A mount within another one's path comes after that one, in whatever order the manifest has them.
        for mount in sorted(run.mounts, key=lambda one: len(Path(one.mount_path).parts)):
            if mount.name == PROGRESS_VOLUME:
                continue
            if mount.mount_path.rstrip("/") == "/tmp":
                environment["TMPDIR"] = str(self._temporary(run.pod, mount.source))
            else:
                self._link(run.pod, mount, warn)
        for name, value in run.environment.items():
            environment[name] = self.network.rewrite(value, namespace, run.services)
        for mount in run.mounts:
            if mount.name == CHECKPOINT_VOLUME:
                # Where the volume really is, for the mount path may be out of reach.
                environment[CHECKPOINT_VARIABLE] = str(mount.source)
            elif mount.name == PROGRESS_VOLUME:
                for name in (CA_VARIABLE, TOKEN_VARIABLE):
                    environment[name] = real_path(environment.get(name, ""), run.mounts)
        if run.gpus is not None:
            environment[CUDA_VISIBLE_DEVICES] = visible_devices(run.gpus, run.environment.get(CUDA_VISIBLE_DEVICES))
        return environment

    def _temporary(self, pod: LocalPod, volume: Path) -> Path:
        """The volume, by a path that leaves room for those of sockets: a link to it, if its own is too long."""
        if len(os.fsencode(volume)) <= _LONGEST_TMPDIR:
            return volume
        # Nobody else can know this name, and put a link of theirs in its place.
        digest = hashlib.sha256(f"{self._mark} {volume}".encode(errors="surrogateescape")).hexdigest()
        link = Path(tempfile.gettempdir(), f"tfo-{digest[:16]}")
        return volume if self._links.make(pod.metadata.uid, link, volume) else link

    def _directory(self, run: ContainerStart, warn: Callable[[str, str], None]) -> Path:
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

    def _ended(self, mark: str, process: ProcessGroup) -> None:
        self._stragglers.kill(mark)
        self._release(process.pid)
        with self._lock:
            self._running.pop(process, None)


def _with_log_dir(argument: str, mounts: Sequence[Mount]) -> str:
    """TensorBoard's argument, with the log directory where it really is: its mount path may be out of reach."""
    name, equals, path = argument.partition("=")
    return f"{name}={real_path(path, mounts)}" if equals and name == "--logdir" else argument


def _mount_variable(mount: Mount) -> str:
    return MOUNT_VARIABLE + mount.name.upper().replace("-", "_")


def _limits(run: ContainerStart) -> GroupLimits:
    said = (run.container.resources.limits or {}) if run.container.resources is not None else {}
    try:
        cpu, memory = (parse_quantity(said[name]) if name in said else None for name in ("cpu", "memory"))
    except ValueError as error:
        raise LaunchError(f"container {run.container.name!r}: resources: {error}") from None
    return GroupLimits(None if cpu is None else float(cpu), None if memory is None else int(memory))


def _name(run: ContainerStart) -> ContainerName:
    return ContainerName(run.pod.metadata.namespace, run.pod.metadata.name, run.container.name)


def _label(run: ContainerStart) -> str:
    return f"{run.pod.metadata.key}/{run.container.name}"
