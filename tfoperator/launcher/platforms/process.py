"""Runs a component's container as a process on this machine, with the command and the arguments, but not in the image.

A shell starts the command in a new process group, and writes the command's exit code to a file. The command and its
children inherit the descriptor of a locked file. So a later launcher can check with the lock whether any of them still
runs. A process ID does not prove this, because another process may have the same ID meanwhile.

In the command, `python3` and `pip` belong to a virtual environment that only this execution uses. This environment has
all packages of the launcher's Python. The launcher removes the environment after the execution, with all packages that
a program has installed in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import msgspec
import yaml

from tfoperator.base.clock import StopSignal
from tfoperator.base.files import hold_lock, local_path
from tfoperator.base.private_files import make_folders
from tfoperator.launcher.container.backend import Launch
from tfoperator.launcher.container.launcher import ContainerComponentLauncher
from tfoperator.launcher.core.component import ExecutorContainerSpec, ExecutorSpec, PlatformConfig
from tfoperator.launcher.core.context import FolderMount
from tfoperator.launcher.core.errors import PermanentFailure, PlatformConfigError, PlatformUnavailable
from tfoperator.launcher.core.output import ContainerEnd

_SHELL = 'echo $$ >"$0/pid"; { (exec "$@") >"$0/log" 2>&1 </dev/null; echo $? >"$0/part"; mv "$0/part" "$0/exit"; } &'
"""The shell starts the command in the background and ends at once. So the command is no child of the launcher, and
continues if the launcher is killed. `$$` is the number of the process group. Because of `exec`, the first word is
always the name of a program, and never a built-in command of the shell.
"""
_GRACE_SECONDS = 10.0  # between SIGTERM and SIGKILL, as for containers on Docker
_LOOK_SECONDS = 0.1
_CHUNK = 1 << 20
_MAX_LINE = 64 << 10
"""The maximum size of a line in bytes. A longer line is cut."""
_FIRST_FREE = 64
"""The command inherits the descriptor of the locked file under this number, or the next free number. The program that
makes mounts (`LaunchContext.mount`) uses lower numbers.
"""


class ProcessPlatformConfig(PlatformConfig):
    """Runs the component as a process on this machine.

    `environment` is added to the environment variables of the launcher's process. The process sees the folders of
    `mounts` at their paths, if `LaunchContext.mount` supports this on this machine.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, mounts: Sequence[FolderMount] = ()) -> None:
        """Raises PlatformConfigError for a name or a value that an environment variable can't have."""
        self.environment = dict(environment or {})
        self.mounts = tuple(mounts)
        for name, value in self.environment.items():
            if not name or "=" in name or "\0" in name or not isinstance(value, str) or "\0" in value:
                raise PlatformConfigError(
                    f"process: environment: {name!r}: the name must not be empty or contain = or NUL, "
                    "and the value must be text without NUL"
                )

    def as_json(self) -> dict[str, Any]:
        """Return the environment variables, and the mounts if there are any."""
        mounts = {"mounts": msgspec.to_builtins(self.mounts)} if self.mounts else {}
        return {"environment": self.environment, **mounts}

    def _merged(self, new: Self) -> Self:
        paths = {mount.path for mount in new.mounts}
        kept = [mount for mount in self.mounts if mount.path not in paths]
        return type(self)({**self.environment, **new.environment}, (*kept, *new.mounts))


class ProcessBackend:
    """The `container.Backend` of a process.

    `words` is the command with its arguments. `needed` contains folders that must stay visible to the process, even if
    a mount hides a parent folder.
    """

    def __init__(
        self,
        launch: Launch,
        words: list[str],
        environment: Mapping[str, str],
        mounts: Sequence[FolderMount] = (),
        needed: Sequence[Path] = (),
    ) -> None:
        self._launch = launch
        self._mounts = mounts
        self._needed = needed
        self._clock = launch.context.clock
        self._words = words
        self._environment = environment
        self._last = ""

    def create(self, name: str) -> str:
        """Start the process, unless an earlier call for this launch has already started it.

        Return the host name of this machine, in place of the UID that other backends return for the created object.
        """
        folder = self._folder(name)
        make_folders(folder)
        with hold_lock(folder / "lock") or nullcontext() as held:
            if held is not None and not (folder / "pid").exists():
                variables = {**os.environ, **_own_python(folder), **self._environment}
                words = [*self._mounted(folder), *self._words]
                lock = fcntl.fcntl(held, fcntl.F_DUPFD, _FIRST_FREE)
                try:
                    subprocess.run(
                        ["/bin/sh", "-c", _SHELL, str(folder), *words],
                        env=variables,
                        cwd=folder,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        start_new_session=True,
                        pass_fds=[lock],
                        check=False,
                    )
                except (OSError, ValueError) as error:  # for example an argument that is too long, or contains NUL
                    raise PermanentFailure(f"process {name} can't be started: {error}") from error
                finally:
                    os.close(lock)
                self._launch.context.tell(f"process {name} started")
        return socket.gethostname()

    def _mounted(self, folder: Path) -> Sequence[str]:
        """Return the words before the command that make the mounts visible to its process (`LaunchContext.mount`).

        Return no words if there are no mounts, or if this machine can't make them. In the second case, notify the user.
        """
        command = self._launch.context.mount
        words = command(self._mounts, (folder, *self._needed)) if self._mounts and command is not None else None
        if self._mounts and words is None:
            paths = ", ".join(mount.path for mount in self._mounts)
            self._launch.context.tell(
                f"process: can't mount {paths} on this machine: the program must read the paths of the folders from "
                "the variables TFOPERATOR_MOUNT_..."
            )
        return words or ()

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Wait until the process ends, and forward its log meanwhile.

        If the whole process group was killed, so that no exit code was written, the end is `lost`: the step can be
        retried.
        """
        while (end := self.ended(name, uid)) is None:
            self._launch.check_cancelled(f"process {name}")
            if not self._lives(name) and self.ended(name, uid) is None:
                return ContainerEnd(None, f"process {name} was killed, or its machine was restarted", lost=True)
            self._launch.cancelled.wait(self._clock, _LOOK_SECONDS)
        return end

    def ended(self, name: str, uid: str) -> ContainerEnd | None:
        """Return how the process ended, or None if it has written no exit code. Forward the new lines of its log.

        Raises PlatformUnavailable if `uid` is the host name of another machine, on which the process was started.
        """
        if uid not in ("", socket.gethostname()):
            raise PlatformUnavailable(
                f"process {name} belongs to the machine {uid}: continue the launch on that machine"
            )
        try:
            code = int((self._folder(name) / "exit").read_text("ascii"))
        except (FileNotFoundError, ValueError):
            self._forward(name)
            return None
        self._forward(name, last=True)
        return ContainerEnd(code, self._last if code else "")

    def stop(self, name: str, uid: str) -> None:
        """Send SIGTERM to the process group, and SIGKILL after 10 s. Then remove the folder of the process."""
        self._launch.context.tell(f"stopping process {name}")
        end = self._clock.monotonic() + _GRACE_SECONDS
        kill = signal.SIGTERM
        while self._lives(name):
            try:
                group = int((self._folder(name) / "pid").read_text("ascii"))
                if group > 1:  # a damaged file could contain 0 or 1, and killpg would signal other processes
                    os.killpg(group, kill)
            except (FileNotFoundError, ValueError, ProcessLookupError):
                pass  # the command has not begun, or its remaining children have changed their process group
            if kill == signal.SIGKILL:
                break
            while self._lives(name) and self._clock.monotonic() < end:
                StopSignal().wait(self._clock, _LOOK_SECONDS)
            kill = signal.SIGKILL
        self._forward(name, last=True)
        self.remove(name, uid)

    def remove(self, name: str, uid: str) -> None:
        """Remove the folder of the process, which contains its log, its exit code and its virtual environment."""
        del uid
        shutil.rmtree(self._folder(name), ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return self._launch.work.path / "processes" / name

    def _lives(self, name: str) -> bool:
        folder = self._folder(name)
        if not folder.is_dir():
            return False
        with hold_lock(folder / "lock") or nullcontext() as held:
            return held is None

    def _forward(self, name: str, *, last: bool = False) -> None:
        """Pass the new lines of the log file to `context.log`. With `last`, include a last line without a line end."""
        work, at = self._launch.work, 0
        if (kept := work.log_position()).isdecimal():
            at = int(kept)
        try:
            with (self._folder(name) / "log").open("rb") as stream:
                stream.seek(at)
                while data := stream.read(_CHUNK):
                    whole = data.rfind(b"\n") + 1 or (len(data) if last or len(data) >= _MAX_LINE else 0)
                    for line in data[:whole].decode("utf-8", "backslashreplace").splitlines():
                        self._launch.context.log(line[:_MAX_LINE])
                        self._last = line.strip()[:1000] or self._last
                    if not whole:
                        break
                    at += whole
                    stream.seek(at)
        except FileNotFoundError:
            return
        if str(at) != kept:
            work.keep_log_position(str(at))


class ProcessComponentLauncher(ContainerComponentLauncher):
    """Runs container specs as processes, with a ProcessPlatformConfig or without a config. The image is not used."""

    kind = "process"

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_spec: PlatformConfig | None = None) -> bool:
        """Return whether the spec is a container spec, with a config for processes or without a config."""
        fits = platform_spec is None or isinstance(platform_spec, ProcessPlatformConfig)
        return fits and isinstance(executor_spec, ExecutorContainerSpec)

    def dry_run(self) -> str:
        """Return the words of the command, the environment variables, and the mounts if there are any, as YAML."""
        mounts = {"mounts": msgspec.to_builtins(self._config.mounts)} if self._config.mounts else {}
        shown = {"process": self._words(), "environment": self._config.environment, **mounts}
        return yaml.safe_dump(shown, sort_keys=False)

    def _words(self) -> list[str]:
        container = self.container
        if not container.command and not container.args:
            raise PlatformConfigError(
                f"component {self.component.name}: a process needs a command, because the image's entry point is not "
                "known"
            )
        return [*container.command, *container.args]

    @property
    def _config(self) -> ProcessPlatformConfig:
        config = self.platform_config
        return config if isinstance(config, ProcessPlatformConfig) else ProcessPlatformConfig()

    @contextmanager
    def _connect(self, launch: Launch) -> Iterator[ProcessBackend]:
        artifacts = [
            artifact
            for side in (self.component.inputs, self.component.outputs)
            for these in side.values()
            for artifact in these
        ]
        paths = [local_path(uri) for uri in (self.tmp_path, *(artifact.uri for artifact in artifacts))]
        needed = [path.parent for path in paths if path is not None and path.parent.is_dir()]
        yield ProcessBackend(launch, self._words(), self._config.environment, self._config.mounts, needed)

    def _resolve_digest(self, image: str) -> str:
        """Return the text for the cache key in place of an image digest: the image's name and the Python version.

        The process does not use the image, so the digest of the image has no meaning.
        """
        return f"process:{image}:{sys.implementation.cache_tag}"


_INNER = "_environments_in_this_one"
_INNER_IMPORT = f"import {_INNER}"
_INNER_CODE = """\
# An environment that `python3 -m venv --system-site-packages` makes has the packages of this one, too: venv gives it
# those of the Python that this one was made of, and a program installs here before it makes one.
import sys

if "venv" in sys.orig_argv[1:3]:
    import pathlib
    import venv

    HERE = str(pathlib.Path(__file__).parent)

    class EnvBuilder(venv.EnvBuilder):
        def create(self, env_dir):
            super().create(env_dir)
            if self.system_site_packages:
                for library in pathlib.Path(env_dir).glob("lib/python*/site-packages"):
                    (library / "shared.pth").write_text(f"import site; site.addsitedir({HERE!r})\\n", "utf-8")

    venv.EnvBuilder = EnvBuilder
"""


def _own_python(folder: Path) -> dict[str, str]:
    """Create a virtual environment in `folder` that has all packages of this Python.

    Return the environment variables that select it: PATH and VIRTUAL_ENV.
    """
    place = folder / "python"
    venv.EnvBuilder(symlinks=True).create(place)
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    if find_spec("pip") is None and (source := find_spec("ensurepip")) is not None and source.origin:
        # Python contains pip as a wheel file. A wheel on `sys.path` can be imported; to install it would take seconds.
        packages += map(str, Path(source.origin).parent.glob("_bundled/pip-*.whl"))
    library = next(place.glob("lib/python*/site-packages"))
    (library / "shared.pth").write_text("".join(f"{path}\n" for path in (*packages, _INNER_IMPORT)), "utf-8")
    (library / f"{_INNER}.py").write_text(_INNER_CODE, "utf-8")
    for name in ("pip", "pip3"):  # otherwise `pip` would be the next pip on PATH, which belongs to the launcher
        command = place / "bin" / name
        command.write_text('#!/bin/sh\nexec "${0%/*}/python3" -m pip "$@"\n', "utf-8")
        command.chmod(0o700)
    return {"PATH": f"{place / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}", "VIRTUAL_ENV": str(place)}
