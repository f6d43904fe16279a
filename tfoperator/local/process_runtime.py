"""The process runtime: every container is a process of this machine, in a session and process group of its own.

The machine takes the image's place: a container inherits the agent's environment, finds the interpreter that runs
tfoperator as `python`, and starts in the directory that the agent was started in unless its `workingDir` exists here.
The one thing that is rewritten are service addresses (see `network`). When its first process ends, the rest of its
group is killed, as the kernel does when the first process of a container ends.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from tfoperator.api.names import CHECKPOINT_VARIABLE, CHECKPOINT_VOLUME, LABEL_TENSORBOARD
from tfoperator.local.expansion import POD_IP
from tfoperator.local.guardian import Guardian
from tfoperator.local.identity import ProcessIdentity, identify, signal_process
from tfoperator.local.network import LoopbackNetwork, NoFreePort
from tfoperator.local.podview import Container, LocalPod
from tfoperator.local.runtime import ContainerRun, LaunchError, OnExit
from tfoperator.local.volumes import Mount, real_path

__all__ = ["ProcessRuntime", "kill_recorded"]

logger = logging.getLogger(__name__)

MOUNT_VARIABLE = "TFOPERATOR_MOUNT_"
"""Followed by a volume's name, in capitals and with `_` for `-`: where the content of the volume lies."""


class ProcessRuntime:
    """Starts containers as processes. Thread-safe.

    `work_dir` is where containers without a (usable) workingDir start, by default the current directory.
    `environ` is what they inherit. `records` is a directory in which each living process group has a file, for
    `kill_recorded` after a crash.
    """

    def __init__(
        self,
        *,
        records: Path,
        work_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        network: LoopbackNetwork | None = None,
    ) -> None:
        self.network = network or LoopbackNetwork()
        self._records = records
        self._work_dir = (work_dir or Path.cwd()).resolve()
        self._environ = _base_environment(os.environ if environ is None else environ)
        self._guardian = Guardian()
        self._lock = threading.Lock()  # guards _running and _links
        self._running: set[GroupProcess] = set()
        self._links: dict[str, list[tuple[Path, Path]]] = {}  # pod uid: (link, target)

    def start(self) -> None:
        """Start the guardian."""
        self._records.mkdir(parents=True, exist_ok=True)
        self._guardian.start()

    def stop(self) -> None:
        """Kill what still runs, wait for its end, and give back ports and links."""
        with self._lock:
            running = tuple(self._running)
            pods = tuple(self._links)
        for process in running:
            process.kill()
        for process in running:
            process.join(10.0)
        self._guardian.stop()
        for uid in pods:
            self._remove_links(uid)
        self.network.close()
        try:
            self._records.rmdir()
        except OSError:  # not empty: a process that hangs in the kernel is still there, and its record with it
            pass

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Nothing: the machine is there."""
        del pod, container, services
        return POD_IP

    def launch(self, run: ContainerRun, on_exit: OnExit, warn: Callable[[str, str], None]) -> GroupProcess:
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
        directory = self._directory(run, warn)
        program = _find_program(command[0], environment, directory)
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
                code = 126 if isinstance(error, PermissionError) else 127
                raise LaunchError(f"can't start {command[0]!r} in {directory}: {error}", code) from None
        process = GroupProcess(popen, _label(run), on_exit, self._ended)
        with self._lock:
            self._running.add(process)
        self._guardian.add(process.pid)
        self._record(process, run)
        process.start_waiting()
        return process

    def release_service(self, namespace: str, name: str) -> None:
        """Give back the service's loopback ports."""
        self.network.release(namespace, name)

    def release_pod(self, pod: LocalPod) -> None:
        """Remove the symbolic links that stood in for the pod's mounts."""
        self._remove_links(pod.metadata.uid)

    def _environment(self, run: ContainerRun, warn: Callable[[str, str], None]) -> dict[str, str]:
        namespace = run.pod.metadata.namespace
        environment = dict(self._environ)
        for mount in run.mounts:
            environment[_mount_variable(mount)] = str(mount.source)
            if mount.mount_path.rstrip("/") == "/tmp":
                environment["TMPDIR"] = str(mount.source)
            else:
                self._link(run.pod, mount, warn)
        for name, value in run.environment.items():
            environment[name] = self.network.rewrite(value, namespace, run.services)
        for mount in run.mounts:
            if mount.name == CHECKPOINT_VOLUME:
                # Where the volume really is, for the mount path may be out of reach.
                environment[CHECKPOINT_VARIABLE] = str(mount.source)
        return environment

    def _directory(self, run: ContainerRun, warn: Callable[[str, str], None]) -> Path:
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
        with self._lock:
            try:
                if path.is_symlink() and path.readlink() == mount.source:
                    return
                path.symlink_to(mount.source)
            except OSError as error:
                problem = "it exists already" if isinstance(error, FileExistsError) else error.strerror
            else:
                self._links.setdefault(pod.metadata.uid, []).append((path, mount.source))
                return
        warn(
            "MountUnavailable",
            f"volume {mount.name!r} can't appear at {path} ({problem}); its path is in the environment variable "
            f"{_mount_variable(mount)}",
        )

    def _remove_links(self, uid: str) -> None:
        with self._lock:
            for path, target in self._links.pop(uid, ()):
                if path.is_symlink() and path.readlink() == target:
                    path.unlink(missing_ok=True)

    def _record(self, process: GroupProcess, run: ContainerRun) -> None:
        identity = identify(process.pid)
        if identity is not None:
            record = {"pid": identity.pid, "started": identity.started, "container": _label(run)}
            try:
                (self._records / f"{process.pid}.json").write_text(json.dumps(record))
            except OSError as error:  # the guardian knows it as well
                logger.warning("can't record process %d: %s", process.pid, error)

    def _ended(self, process: GroupProcess) -> None:
        self._guardian.discard(process.pid)
        (self._records / f"{process.pid}.json").unlink(missing_ok=True)
        with self._lock:
            self._running.discard(process)


class GroupProcess:
    """A container's process group, waited for by a thread of its own. Thread-safe."""

    def __init__(
        self, popen: subprocess.Popen[bytes], label: str, on_exit: OnExit, on_ended: Callable[[GroupProcess], None]
    ) -> None:
        self.pid = popen.pid
        self._popen = popen
        self._on_exit = on_exit
        self._on_ended = on_ended
        self._lock = threading.Lock()  # guards _reaped: the id may be signalled only while it is surely still ours
        self._reaped = False
        self._thread = threading.Thread(target=self._wait, name=f"wait-{label}", daemon=True)

    def start_waiting(self) -> None:
        """Start the thread that notices the end."""
        self._thread.start()

    def terminate(self) -> None:
        """SIGTERM to the group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the group."""
        self._signal(signal.SIGKILL)

    def join(self, timeout: float) -> None:
        """Wait until the end has been dealt with."""
        self._thread.join(timeout)

    def _signal(self, number: signal.Signals) -> None:
        with self._lock:
            if self._reaped:
                return
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:  # macOS says so when nobody but a zombie is left
                pass

    def _wait(self) -> None:
        if hasattr(os, "waitid"):
            # See the end without reaping: until then the id, and so the group's, can't be given to anyone else.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._popen.wait()
        self._signal(signal.SIGKILL)
        self._on_ended(self)
        with self._lock:
            code = self._popen.wait()
            self._reaped = True
        self._on_exit(code if code >= 0 else 128 - code)


def kill_recorded(records: Path) -> list[str]:
    """Kill the process groups that a crashed agent left behind; returns what they were. Never a stranger's."""
    killed = []
    for file in sorted(records.glob("*.json")):
        try:
            record = msgspec.json.decode(file.read_bytes())
            identity = ProcessIdentity(int(record["pid"]), str(record["started"]))
        except (OSError, msgspec.DecodeError, KeyError, ValueError):
            logger.warning("%s is not a process record, ignored", file)
            continue
        if signal_process(identity, signal.SIGKILL, group=True):
            killed.append(str(record.get("container", identity.pid)))
        file.unlink(missing_ok=True)
    return killed


def _with_log_dir(argument: str, mounts: Sequence[Mount]) -> str:
    """TensorBoard's argument, with the log directory where it really is: its mount path may be out of reach."""
    name, equals, path = argument.partition("=")
    return f"{name}={real_path(path, mounts)}" if equals and name == "--logdir" else argument


def _mount_variable(mount: Mount) -> str:
    return MOUNT_VARIABLE + mount.name.upper().replace("-", "_")


def _label(run: ContainerRun) -> str:
    return f"{run.pod.metadata.key}/{run.container.name}"


def _base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What containers inherit: this machine's environment, our interpreter first on PATH, output not held back."""
    base = {name: value for name, value in environ.items() if name not in ("TF_CONFIG", "KUBECONFIG")}
    interpreter = str(Path(sys.executable).parent)
    others = [part for part in base.get("PATH", os.defpath).split(os.pathsep) if part != interpreter]
    base["PATH"] = os.pathsep.join([interpreter, *others])
    base.setdefault("PYTHONUNBUFFERED", "1")  # else the log of a Python program comes in blocks of 8 KiB
    return base


def _find_program(name: str, environment: Mapping[str, str], directory: Path) -> str:
    """The program's path. Raises LaunchError in words: what Popen says of a missing file or directory is ambiguous."""
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
