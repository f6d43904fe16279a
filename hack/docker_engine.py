"""A Docker engine for tests, with its own socket. It does not change the machine.

The engine is Debian's `docker.io`, unpacked into the cache, or an engine on PATH. It runs in its own namespaces: its
mounts, bridges and firewall rules exist only there, and end together with all containers when one process ends. So
several engines can run at the same time, also together with an engine of the system. The disadvantage: containers can
reach each other, but not this machine or the internet, and published ports can't be reached from outside. If the
variable `DOCKER_HOST` is set, tests use that engine instead.

    python -m hack.docker_engine                      # start one; DOCKER_HOST is printed; Ctrl-C ends it
    python -m hack.docker_engine docker run ...       # start one, run a command with DOCKER_HOST, end it
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import docker
from docker.errors import DockerException

from hack import debian, images
from hack.machine import require_root
from hack.processes import comes_true, remove_cgroups, spawn

BUSYBOX_IMAGE = "local/busybox:1"
START_SECONDS = 60.0
STOP_SECONDS = 20.0


class EngineError(Exception):
    """The engine can't be started or stopped; the message names the reason and a remedy."""


class DockerEngine:
    """One engine; its files are in `folder`. `start()` and `stop()` once each, from one thread.

    It ends with the thread that has started it, however that ends, so that a killed test leaves nothing behind.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._external = os.environ.get("DOCKER_HOST", "")
        self._cgroup = f"tfoperator-{os.getpid()}-{folder.name}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The value for `DOCKER_HOST`."""
        return self._external or f"unix://{self._folder}/docker.sock"

    @property
    def log(self) -> Path:
        """Where the engine logs."""
        return self._folder / "dockerd.log"

    @property
    def enter(self) -> list[str]:
        """The words before a command that uses published ports: the command then runs in the engine's network."""
        return [] if self._process is None else ["nsenter", f"--net=/proc/{self._process.pid}/ns/net", "--"]

    def start(self) -> None:
        """Start the engine, or look for the engine of DOCKER_HOST; return when it answers.

        Needs Linux and root. Raises EngineError, MachineError, PackageError.
        """
        if not self._external:
            require_root()
            self._spawn()
        end = time.monotonic() + START_SECONDS
        while (problem := self._problem()) and time.monotonic() < end:
            if self._process is not None and self._process.poll() is not None:
                break
            time.sleep(0.05)
        if problem:
            output = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
            self.stop()
            raise EngineError(f"the Docker engine at {self.url} does not answer: {problem}\n{output}")

    def stop(self) -> None:
        """End it, every container, and all that it has made. Idempotent. An engine of DOCKER_HOST stays."""
        process, self._process = self._process, None
        if process is None:
            return
        inside = _children(process.pid)
        process.kill()  # its child is killed with it, and with that, the first of its namespace, every process there
        process.wait()
        if not comes_true(lambda: not any(map(_runs, inside)) and self._remove_cgroups(), STOP_SECONDS):
            raise EngineError(f"the engine's processes do not end (the first is {inside})")
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(
        self,
        name: str,
        files: Mapping[str, Path | bytes | str] | None = None,
        *,
        command: Sequence[str] = ("/bin/sh",),
        entrypoint: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        user: str = "",
        workdir: str = "/",
    ) -> str:
        """Make an image of busybox and `files` (see `hack.images.write_image`); returns its name."""
        archive = self._folder / "image.tar"
        self._folder.mkdir(parents=True, exist_ok=True)
        content = images.busybox(busybox()) | dict(files or {})
        images.write_image(
            archive, name, content, command=command, entrypoint=entrypoint, env=env, user=user, workdir=workdir
        )
        client = docker.DockerClient(base_url=self.url)
        try:
            with archive.open("rb") as stream:
                client.images.load(stream)
        finally:
            client.close()
            archive.unlink()
        return name

    def _spawn(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        environment = _programs(self._folder)
        (self._folder / "daemon.json").write_text(json.dumps({}))  # not the system's
        engine = [
            "dockerd", f"--config-file={self._folder}/daemon.json", f"--host={self.url}",
            f"--data-root={self._folder}/data", f"--exec-root={self._folder}/exec", f"--pidfile={self._folder}/pid",
            "--exec-opt=native.cgroupdriver=cgroupfs", f"--cgroup-parent=/{self._cgroup}", "--userland-proxy=false",
            "--shutdown-timeout=1", "--log-level=warn",
        ]  # fmt: skip
        # The first process of a PID namespace has to bury orphans, which dockerd would not.
        init = ["docker-init", "--"] if shutil.which("docker-init", path=environment["PATH"]) else []
        inside = ["sh", "-c", 'ip link set lo up; exec "$@"', "sh", *init, *engine]
        namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
        command = ["setpriv", "--pdeathsig=KILL", *namespaces, "--", *inside]
        self._process = spawn(command, self.log, env=environment, start_new_session=True)

    def _problem(self) -> str:
        """Why the engine doesn't answer; empty if it does."""
        if self._external:
            try:
                docker.DockerClient(base_url=self.url, timeout=10).close()
            except DockerException as error:
                return str(error)
            return ""
        # Not the library: what can't connect there leaves its socket open.
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(self.url.removeprefix("unix://"))
                connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                answer = connection.recv(1024)
        except OSError as error:
            return error.strerror or str(error)
        return "" if b" 200 " in answer.partition(b"\r\n")[0] else repr(answer)

    def _remove_cgroups(self) -> bool:
        root = Path("/sys/fs/cgroup")
        return remove_cgroups([root / self._cgroup, *root.glob(f"*/{self._cgroup}")])


@contextmanager
def running_engine() -> Iterator[DockerEngine]:
    """An engine that has BUSYBOX_IMAGE, in a folder of its own; both are gone afterwards. Raises as `start` does."""
    # Not below the folder that tests have: the path of a socket may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="tfo-docker-", ignore_cleanup_errors=True) as folder:
        engine = DockerEngine(Path(folder) / "engine")
        engine.start()
        try:
            engine.load(BUSYBOX_IMAGE)
            yield engine
        finally:
            engine.stop()


def busybox() -> Path:
    """A static busybox. Raises PackageError."""
    return debian.find(debian.DOCKER_ENGINE) / "bin/busybox"


def _programs(folder: Path) -> dict[str, str]:
    """The environment in which dockerd and what it needs are found."""
    if shutil.which("dockerd"):
        return dict(os.environ)
    root = debian.find(debian.DOCKER_ENGINE)
    debian.link_iptables(root, folder / "bin")
    environment = debian.environment(root)
    return {**environment, "PATH": f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"}


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie: its namespace is gone by then, burying it is somebody else's job."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def main(command: Sequence[str]) -> int:
    """Run a command with an engine, or the engine until a signal comes."""
    debian.unpack(debian.DOCKER_ENGINE)
    with running_engine() as engine:
        if command:
            return subprocess.call(command, env={**os.environ, "DOCKER_HOST": engine.url})
        print(f"export DOCKER_HOST={engine.url}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
        return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT} if len(sys.argv) == 1 else ())
    sys.exit(main(sys.argv[1:]))
