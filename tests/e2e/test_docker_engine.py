"""The engine that other tests rely on: it runs containers, and leaves the machine as it was."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import docker
import pytest

from hack.docker_engine import BUSYBOX_IMAGE, DockerEngine
from tests.support.eventually import eventually


def traces() -> set[str]:
    """Mounts of this machine, and its interfaces and control groups that an engine of this process can have made."""
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    groups = {str(path) for path in Path("/sys/fs/cgroup").glob(f"**/tfoperator-{os.getpid()}-*")}
    interfaces = {name for name in os.listdir("/sys/class/net") if name.startswith(("docker", "br-", "veth"))}
    return mounts | groups | interfaces


def processes() -> str:
    return subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)


@pytest.mark.usefixtures("no_other")
def test_it_ends_with_its_containers_networks_and_groups() -> None:
    before = traces()
    with tempfile.TemporaryDirectory(prefix="tfo-docker-") as folder:
        engine = DockerEngine(Path(folder) / "engine")
        engine.start()
        engine.load(BUSYBOX_IMAGE)
        client = docker.DockerClient(base_url=engine.url)
        client.networks.create("net")
        client.containers.run(BUSYBOX_IMAGE, ["sleep", "4711"], detach=True, network="net", mem_limit="32m")
        eventually(lambda: "sleep 4711" in processes(), what="the container's program runs")
        client.close()
        engine.stop()
        engine.stop()
        assert list(Path(folder).iterdir()) == []
    eventually(lambda: traces() <= before, what="nothing is left")
    assert "sleep 4711" not in processes()


@pytest.mark.usefixtures("no_other")
def test_it_ends_with_who_has_started_it() -> None:
    command = [sys.executable, "-m", "hack.docker_engine", "sh", "-c", "echo $DOCKER_HOST; exec sleep 600"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        socket = process.stdout.readline().strip().removeprefix("unix://")
        listens = subprocess.run(["pgrep", "-f", f"dockerd.*{socket}"], capture_output=True, text=True, check=True)
        assert listens.stdout.split()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
    eventually(
        lambda: subprocess.run(["pgrep", "-f", f"dockerd.*{socket}"], capture_output=True, check=False).returncode == 1,
        what="the engine's end",
    )
