"""Behaviour that a real engine is too well equipped, or too quick, to show; see tests/e2e/test_docker_runtime.py."""

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from tests.support.eventually import eventually
from tests.support.threads import run_at_once
from tests.unit.local.node.pods import container, manifest, view
from tests.unit.local.runtime.docker.fakes import PlainSettings
from tfoperator.api.replicas.progress_names import PROGRESS_SERVICE, URL_VARIABLE
from tfoperator.local.runtime.docker import runtime
from tfoperator.local.runtime.docker.engine import Engine
from tfoperator.local.runtime.docker.runtime import DockerRuntime
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.protocol import ContainerStart, HostService, LaunchError, LocalPod, RuntimeUnavailable
from tfoperator.local.runtime.selection import RuntimeName, RuntimeOptions, make_runtime


def pod(**fields: Any) -> LocalPod:
    return view(manifest("p", container(image="image:1", command=["x"], **fields)))


POD = pod()


class SmallEngine(PlainSettings):
    """docker-py's client of an engine whose containers end at once. `on_start` sees, and may refuse, each start."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.started: list[dict[str, Any]] = []
        self.made_networks: list[str] = []
        self.interface = "lo"
        """Of the bridge of its networks."""
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
        state = {"ExitCode": 0, "Running": True}
        return {"Image": "sha256:abc", "State": state, "NetworkSettings": {"Networks": {}}}

    def inspect_network(self, name: str) -> dict[str, Any]:
        options = {"com.docker.network.bridge.name": self.interface}
        return {"Name": name, "Driver": "bridge", "Options": options, "IPAM": {"Config": [{"Gateway": "127.0.0.1"}]}}

    def create_network(self, name: str, **_: Any) -> None:
        self.made_networks.append(name)

    def remove_network(self, name: str) -> None:
        self.made_networks.remove(name)

    def networks(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": name} for name in self.made_networks]

    def logs(self, _: str, **__: Any) -> Iterator[bytes]:
        return iter([b"hello\n"])

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
    new_runtime = DockerRuntime()
    new_runtime.start()
    yield new_runtime
    new_runtime.stop()
    assert (engine.made, engine.made_networks) == ({}, [])


def launch(
    docker_runtime: DockerRuntime, folder: Path, pod: LocalPod = POD, *, warn: Any = lambda *_: None, **fields: Any
) -> list[int]:
    """Start a container of the pod; the exit code appears in the list."""
    main = pod.spec.containers[0]
    docker_runtime.prepare(pod, main, tuple)
    codes: list[int] = []
    whole = {"environment": {}, "mounts": (), "log": LogFile(folder / "0.log"), **fields}
    run = ContainerStart(pod, main, ("x",), **whole)
    docker_runtime.launch(run, lambda code, reason="": codes.append(code), warn)
    return codes


def missing(what: str) -> APIError:
    return APIError("400", explanation=f'exec: "{what}": executable file not found in $PATH')


def test_an_engine_without_an_init_process_runs_containers_without(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    refused = []

    def lack_init(settings: dict[str, Any]) -> None:
        if settings["host_config"].get("init"):
            refused.append(settings)
            raise missing("docker-init")

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
    docker_runtime.prepare(POD, POD.spec.containers[0], tuple)

    def stop(_: dict[str, Any]) -> None:
        hidden, engine.made = engine.made, {}  # the engine doesn't list it yet
        run_at_once(docker_runtime.stop)
        engine.made = hidden

    engine.on_start = stop
    with pytest.raises(LaunchError, match="the run is over"):
        launch(docker_runtime, tmp_path)
    assert not [name for name in engine.made if "sandbox" not in name]
    engine.made.clear()


def test_an_engine_that_is_away_for_a_moment_is_asked_again_but_not_waited_for_when_the_run_ends(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    engine.deaf = 1
    codes = launch(docker_runtime, tmp_path)
    eventually(lambda: codes == [0], what="the container's end")
    engine.deaf = 1000
    codes = launch(docker_runtime, tmp_path)
    docker_runtime.stop()
    assert codes == [137]


def test_what_an_image_lacks_is_permanent(docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path) -> None:
    docker_runtime.prepare(POD, POD.spec.containers[0], tuple)

    def lack(_: dict[str, Any]) -> None:
        raise missing("x")

    engine.on_start = lack
    with pytest.raises(LaunchError, match="can't start container 'tensorflow' of image 'image:1'") as caught:
        launch(docker_runtime, tmp_path)
    assert caught.value.exit_code == 127


def test_without_the_library_the_runtime_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = ("tfoperator.local.runtime.docker", "docker.")
    for module in [name for name in sys.modules if name.startswith(ours)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(RuntimeUnavailable, match=r"pip install 'tfoperator\[docker\]'"):
        make_runtime(RuntimeOptions(RuntimeName.DOCKER), records=tmp_path)


NO_DRIVER = 'could not select device driver "" with capabilities: [[gpu]]'


def test_an_engine_without_gpus_runs_containers_on_the_cpu_and_says_so_once(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    def lack_gpus(settings: dict[str, Any]) -> None:
        if settings["host_config"].get("device_requests"):
            raise APIError("500", explanation=NO_DRIVER)

    engine.on_start = lack_gpus
    wanting = pod(resources={"limits": {"nvidia.com/gpu": 1}})
    warnings: list[tuple[str, str]] = []
    for _ in range(2):
        codes = launch(docker_runtime, tmp_path, wanting, warn=lambda *news: warnings.append(news))
        eventually(lambda codes=codes: codes == [0], what="the container's end")
    [(reason, message)] = warnings
    assert reason == "NoGPU"
    assert NO_DRIVER in message
    docker_runtime._without_gpus = False
    with pytest.raises(LaunchError, match="could not select device driver"):
        launch(docker_runtime, tmp_path, wanting, gpus=("GPU-a",))


URL = f"https://{PROGRESS_SERVICE}:44/apis"
REPORTING = pod(env=[{"name": URL_VARIABLE, "value": URL}])


@pytest.mark.parametrize(("interface", "reaches"), [("lo", True), ("br-elsewhere", False)])
def test_a_program_is_told_where_to_report_if_it_can_reach_that(
    engine: SmallEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, interface: str, reaches: bool
) -> None:
    monkeypatch.setattr(runtime, "connect", lambda: Engine(engine, 2, "x86_64"))
    engine.interface = interface
    sockets: list[socket.socket] = []
    warnings: list[str] = []
    docker_runtime = DockerRuntime()
    docker_runtime.start(HostService(PROGRESS_SERVICE, 0, sockets.append))
    try:
        for of, environment in ((REPORTING, {URL_VARIABLE: URL, "OTHER": "x"}), (POD, {})):
            launch(
                docker_runtime, tmp_path, of, environment=environment, warn=lambda reason, _: warnings.append(reason)
            )
            docker_runtime.release_pod(of)
    finally:
        docker_runtime.stop()
        for each in sockets:
            each.close()
    sandbox, reporting, silent_sandbox, _ = engine.started
    assert sandbox["host_config"]["extra_hosts"] == ({PROGRESS_SERVICE: "127.0.0.1"} if reaches else None)
    assert silent_sandbox["host_config"]["extra_hosts"] is None
    assert (f"{URL_VARIABLE}={URL}" in reporting["environment"]) is reaches
    assert "OTHER=x" in reporting["environment"]
    assert (len(sockets), warnings) == ((1, []) if reaches else (0, ["NoProgressReports"]))


def test_what_containers_use_is_asked_without_waiting_for_a_second_sample(
    docker_runtime: DockerRuntime, engine: SmallEngine, tmp_path: Path
) -> None:
    running = threading.Event()
    asked: list[dict[str, Any]] = []

    def stats(name: str, **options: Any) -> dict[str, Any]:
        asked.append(options)
        if len(asked) > 1:
            raise NotFound(name)
        return {"cpu_stats": {"cpu_usage": {"total_usage": 10**9}}, "memory_stats": {"usage": 7}}

    engine.stats = stats  # type: ignore[attr-defined]
    engine.wait = lambda _, **__: running.wait(60)  # type: ignore[method-assign]
    try:
        codes = launch(docker_runtime, tmp_path)
        [usage] = docker_runtime.measure()
        assert (usage.name.pod, usage.name.container, usage.cpu_seconds, usage.memory) == ("p", "tensorflow", 1.0, 7)
        assert docker_runtime.measure() == []  # it has ended meanwhile
    finally:
        running.set()
    assert asked[0] == {"stream": False, "one_shot": True}
    eventually(lambda: codes == [0], what="the container's end")
    assert docker_runtime.measure() == []
