"""Starts the first process of a container, with or without a mount namespace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfoperator.local.runtime.process.groups.control_groups import ContainerGroup
from tfoperator.local.runtime.process.mounts.namespaces import NamespaceStart
from tfoperator.local.runtime.process.programs import find_program
from tfoperator.local.runtime.protocol import ContainerStart, LaunchError


class Starter:
    """One start of a container.

    After the container has started, `directory` is the directory in which it started: the wanted or the default
    directory. Not thread-safe: only the pod's worker thread uses it.
    """

    def __init__(
        self,
        run: ContainerStart,
        command: Sequence[str],
        environment: Mapping[str, str],
        wanted_directory: Path,
        default_directory: Path,
        group: ContainerGroup | None,
        warn: Callable[[str, str], None],
    ) -> None:
        self.directory = wanted_directory
        self._run = run
        self._command = tuple(command)
        self._environment = environment
        self._default = default_directory
        self._group = group
        self._warn = warn

    def start(self) -> subprocess.Popen[bytes]:
        """Start the container without a mount namespace. Raises LaunchError."""
        if not self.directory.is_dir():
            self._use_default()
        program = find_program(self._command[0], self._environment, self.directory)
        return self._popen(program, self._command, self.directory)

    def start_in_namespace(self, mounts: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the container in a mount namespace.

        `mounts` are the arguments of `container_main`. Raises LaunchError.
        """
        wanted, default = str(self.directory), str(self._default)
        start = NamespaceStart(tuple(mounts), self._command, wanted, default)
        popen, directory_exists = start.start(
            lambda command, report: self._popen(command[0], command, Path("/"), report)
        )
        if not directory_exists:
            self._use_default()
        return popen

    def _use_default(self) -> None:
        wanted, self.directory = self._run.container.working_dir, self._default
        self._warn(
            "WorkingDirMissing", f"workingDir {wanted} does not exist on this machine, so {self._default} is used"
        )

    def _popen(
        self, program: str, command: Sequence[str], directory: Path, *descriptors: int
    ) -> subprocess.Popen[bytes]:
        if self._group is not None:
            command = self._group.command(program, command[1:])
            program = command[0]
        with self._run.log.path.open("ab") as output:
            try:
                return subprocess.Popen(
                    command,
                    executable=program,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=directory,
                    env=self._environment,
                    start_new_session=True,
                    pass_fds=descriptors,
                )
            except (OSError, ValueError) as error:
                code = 126 if isinstance(error, PermissionError) else 127
                where = f"{self._command[0]!r} in {self.directory}"
                raise LaunchError(f"can't start {where}: {error}", code) from None
