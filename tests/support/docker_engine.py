"""A real Docker engine for tests, one per session: import `docker_engine` into a conftest or test module.

    from tests.support.docker_engine import docker_engine

    def test_something(docker_engine: DockerEngine) -> None:
        image = docker_engine.load("local/mine:1", {"app/main.sh": b"#!/bin/sh\\necho hello"}, command=["/app/main.sh"])
        client = docker.DockerClient(base_url=docker_engine.url)      # or DOCKER_HOST=docker_engine.url

`local/busybox:1` is there already. There is no registry: pulling anything fails, which is a case to be tested, too.
Containers can't reach this machine, nor it them (see `hack.docker_engine`); look at logs and exit codes, mount a
folder, or put `docker_engine.enter` before a command that needs to. An image can be tiny and still run this machine's
Python: mount /usr, /lib, /lib64, /etc/alternatives and the interpreter's `sys.base_prefix` and `sys.prefix` read-only
(`host_python_mounts`).

The engine is required: where it can't be started, these tests fail, for a skip would hide that nothing was shown.
"""

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from hack.docker_engine import BUSYBOX_IMAGE, DockerEngine, running_engine
from tfoperator.launcher.container.backend import LAUNCH_LABEL

__all__ = [
    "BUSYBOX_IMAGE", "DockerEngine", "docker_engine", "engine", "host_python_mounts", "launches", "traces",
    "with_this_python",
]  # fmt: skip


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    with running_engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def engine(docker_engine: DockerEngine) -> Iterator[docker.DockerClient]:
    """A client of it."""
    with closing(docker.DockerClient(base_url=docker_engine.url)) as client:
        yield client


def launches(client: docker.DockerClient) -> list[Any]:
    """Return the containers of launches, dead or alive; a container that goes away meanwhile is left out."""
    return list(client.containers.list(all=True, filters={"label": LAUNCH_LABEL}, ignore_removed=True))


def traces(client: docker.DockerClient) -> list[str]:
    """The names of everything that an engine has beside its own networks and the images."""
    networks = [network.name for network in client.networks.list() if network.name not in ("none", "host", "bridge")]
    volumes = [volume.name for volume in client.volumes.list()]
    containers = client.containers.list(all=True, ignore_removed=True)  # those that go meanwhile don't count
    return [container.name for container in containers] + networks + volumes


def host_python_mounts() -> list[str]:
    """The folders of this machine that its Python needs, to be mounted read-only at the same places."""
    checkout = str(Path(__file__).resolve().parents[2])
    wanted = ["/usr", "/lib", "/lib64", sys.base_prefix, sys.prefix, sysconfig.get_paths()["purelib"], checkout]
    folders = dict.fromkeys(str(Path(path)) for path in wanted if Path(path).is_dir())
    return [path for path in folders if not any(path != other and path.startswith(f"{other}/") for other in folders)]


def with_this_python(spec: dict[str, Any], *more: Path) -> None:
    """Have this machine's Python, and more of its folders, in a pod (or a TensorBoard): its image has none."""
    places = {f"host-{n}": path for n, path in enumerate([*host_python_mounts(), *map(str, more)])}
    spec["volumes"] = [*spec.get("volumes", []), *({"name": n, "hostPath": {"path": p}} for n, p in places.items())]
    mounts = [{"name": name, "mountPath": path, "readOnly": True} for name, path in places.items()]
    for container in [spec] if "logDir" in spec else spec["containers"]:
        container["volumeMounts"] = [*container.get("volumeMounts", []), *mounts]
