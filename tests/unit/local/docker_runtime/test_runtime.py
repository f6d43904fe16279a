"""What a real engine is too well equipped, or too quick, to show; the rest is in tests/e2e/test_docker_runtime.py."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from tests.support.eventually import eventually
from tests.support.threads import no_threads_left
from tests.unit.local.pods import container, manifest, view
from tfoperator.local.docker_runtime import DockerRuntime, runtime
from tfoperator.local.docker_runtime.engine import Engine
from tfoperator.local.logs import LogFile
from tfoperator.local.runtime import ContainerRun, LaunchError, RuntimeUnavailable
from tfoperator.local.runtimes import RuntimeName, make_runtime

POD = view(manifest("p", container(image="image:1", command=["x"])))
MAIN = POD.spec.containers[0]


class SmallEngine:
    """docker-py's client of an engine whose containers end at once. `on_start` sees, and may refuse, each start."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.started: list[dict[str, Any]] = []
        self.made_networks: list[str] = []
        self.deaf = 0
        """How many times it does not answer."""
        self.on_start: Callable[[dict[str, Any]], None] = lambda _: None

    def create_container(self, name: str, **settings: Any) -> dict[str, str]:
        self.made[name] = settings
        return {"Id": name}

    def start(self, name: str) -> None:
        self.on_start(self.made[name])
        self.started.append(self.made[name])

    def remove_container(self, name: str, **_: Any) -> None:
        if self.made.pop(name, None) is None:
            raise NotFound(name)

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": name, "HostConfig": {}, "Names": [f"/{name}"]} for name in self.made]

    def inspect_container(self, _: str) -> dict[str, Any]:
        return {"State": {"ExitCode": 0, "Running": True}, "NetworkSettings": {"Networks": {}}}

    def create_network(self, name: str, **_: Any) -> None:
        self.made_networks.append(name)

    def remove_network(self, name: str) -> None:
        self.made_networks.remove(name)

    def networks(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": name} for name in self.made_networks]

    def logs(self, _: str, **__: Any) -> Iterator[bytes]:
        return iter([b"hello\n"])

    def create_host_config(self, **settings: Any) -> dict[str, Any]:
        return settings

    def create_endpoint_config(self, **settings: Any) -> dict[str, Any]:
        return settings

    def create_networking_config(self, settings: dict[str, Any]) -> dict[str, Any]:
        return settings

    def kill(self, _: str, **__: Any) -> None: ...

    def inspect_image(self, _: str) -> None: ...

    def wait(self, _: str, **__: Any) -> None:
        if self.deaf:
            self.deaf -= 1
            raise ConnectionRefusedError(111, "Connection refused")

    def close(self) -> None: ...


@pytest.fixture
def engine() -> SmallEngine:
    return SmallEngine()


@pytest.fixture
def docker_runtime(engine: SmallEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerRuntime]:
    monkeypatch.setattr(runtime, "connect", lambda: Engine(engine, 2, "x86_64"))
    with no_threads_left():
        one = DockerRuntime()
        one.start()
        yield one
        one.stop()
    assert (engine.made, engine.made_networks) == ({}, [])


def launch(docker_runtime: DockerRuntime, folder: Path) -> list[int]:
    """Start a container of the pod; the exit code appears in the list."""
    docker_runtime.prepare(POD, MAIN, tuple)
    codes: list[int] = []
    run = ContainerRun(POD, MAIN, ("x",), {}, (), LogFile(folder / "0.log"))
    docker_runtime.launch(run, lambda code, reason="": codes.append(code), lambda *_: None)
    return codes


def test_an_engine_without_an_init_process_runs_containers_without(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    refused = []

    def lack_init(settings: dict[str, Any]) -> None:
        if settings["host_config"].get("init"):
            refused.append(settings)
            raise APIError("400", explanation='exec: "docker-init": executable file not found in $PATH')

    engine.on_start = lack_init
    for _ in range(2):
        codes = launch(docker_runtime, tmp_path)
        eventually(lambda codes=codes: codes == [0], what="the container's end")
    assert len(refused) == 1
    assert [started["host_config"].get("init") for started in engine.started[1:]] == [False, False]
    assert (tmp_path / "0.log").read_text() == "hello\nhello\n"


def test_a_container_that_is_started_while_the_run_is_stopped_is_removed(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    docker_runtime.prepare(POD, MAIN, tuple)

    def stop(_: dict[str, Any]) -> None:
        hidden, engine.made = engine.made, {}  # the engine doesn't list it yet
        stopping = threading.Thread(target=docker_runtime.stop)
        stopping.start()
        stopping.join(10)
        engine.made = hidden

    engine.on_start = stop
    with pytest.raises(LaunchError, match="the run is over"):
        launch(docker_runtime, tmp_path)
    assert not [name for name in engine.made if "sandbox" not in name]
    engine.made.clear()


def test_an_engine_that_is_away_for_a_moment_is_asked_again(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    engine.deaf = 1
    codes = launch(docker_runtime, tmp_path)
    eventually(lambda: codes == [0], what="the container's end")


def test_an_engine_that_does_not_come_back_is_not_waited_for_when_the_run_ends(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    engine.deaf = 1000
    codes = launch(docker_runtime, tmp_path)
    docker_runtime.stop()
    assert codes == [137]


def test_what_an_image_lacks_is_permanent(docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path) -> None:
    docker_runtime.prepare(POD, MAIN, tuple)

    def lack(_: dict[str, Any]) -> None:
        raise APIError("400", explanation='exec: "x": executable file not found in $PATH')

    engine.on_start = lack
    with pytest.raises(LaunchError, match="can't start container 'tensorflow' of image 'image:1'") as caught:
        launch(docker_runtime, tmp_path)
    assert caught.value.exit_code == 127


def test_without_the_library_the_runtime_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in [name for name in sys.modules if name.startswith("tfoperator.local.docker_runtime")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(RuntimeUnavailable, match=r"pip install 'tfoperator\[docker\]'"):
        make_runtime(RuntimeName.DOCKER, records=tmp_path)
