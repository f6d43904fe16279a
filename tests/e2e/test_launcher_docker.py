"""Components on a real Docker engine."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from docker import DockerClient

from tests.support.cli import Cli
from tests.support.docker_engine import BUSYBOX_IMAGE, DockerEngine, engine, launches
from tests.support.eventually import eventually
from tests.support.launching import QUICK, Background, Killed, dies_at, in_background
from tests.support.threads import no_threads_left
from tfoperator.launcher import (
    AlreadyFailed,
    Artifact,
    CleanUp,
    Component,
    DockerComponentLauncher,
    DockerPlatformConfig,
    ExecutorContainerSpec,
    PermanentFailure,
    PlatformUnavailable,
    RetryableFailure,
)

__all__ = ["engine"]

Start = Callable[..., Background]

ROOT = Path(__file__).parents[2]
SHELL = ("sh", "-ec")
BUSY = json.dumps({"error_status": {"code": "RETRYABLE_ERROR", "message": "busy"}})
BAD = json.dumps({"error_status": {"code": "PERMANENT_ERROR", "message": "bad"}})


def saying(document: str) -> str:
    return f"echo '{document}' > {{{{ exec_properties.tmp_path }}}}/output.json"


@pytest.fixture(scope="module")
def docker_url(docker_engine: DockerEngine) -> str:
    return docker_engine.url


@pytest.fixture
def containers(engine: DockerClient) -> Iterator[Callable[[], list[Any]]]:
    """The containers of launches, dead or alive."""
    yield lambda: launches(engine)
    for container in launches(engine):
        container.remove(force=True)


@pytest.fixture
def start(docker_url: str, tmp_path: Path) -> Iterator[Start]:
    """Launches in the background, with `tmp_path/data` as `/data`."""
    data = tmp_path / "data"
    data.mkdir()

    def launch(
        *args: str,
        command: tuple[str, ...] = SHELL,
        image: str = "",
        component: Any = None,
        config: Any = None,
        **more: Any,
    ) -> Background:
        step = Component("step", ExecutorContainerSpec(image or BUSYBOX_IMAGE, command, args), **(component or {}))
        arguments = {"network_mode": "none", "volumes": {str(data): {"bind": "/data", "mode": "rw"}}, **(config or {})}
        platform = DockerPlatformConfig(docker_server_url=docker_url, **arguments)
        options = {"api_retry": QUICK, **more}
        return begin(lambda context: DockerComponentLauncher(step, platform, context=context), **options)

    with no_threads_left(), in_background(tmp_path) as begin:
        yield launch


def test_inputs_outputs_and_parameters_reach_the_container(start: Start, containers: Any, tmp_path: Path) -> None:
    (tmp_path / "data/in").write_text("a\nb\n")
    launch = start(
        "wc -l < {{ inputs.text.uri }} > {{ outputs.counts.uri }}; echo $WHO {{ exec_props.what }}; echo err >&2",
        component={
            "inputs": {"text": [Artifact("/data/in")]},
            "outputs": {"counts": [Artifact("/data/out")]},
            "exec_properties": {"what": "counted"},
        },
        config={"environment": {"WHO": "I"}},
    )
    result = launch.done()

    assert (tmp_path / "data/out").read_text().strip() == "2"
    assert sorted(launch.lines) == ["I counted", "err"]
    assert result.image_id.startswith("sha256:")
    assert containers() == []


def test_a_failure_is_permanent_and_remembered(start: Start, containers: Any) -> None:
    with pytest.raises(PermanentFailure, match="exit code 1"):
        start("exit 1", clean_up=CleanUp.ON_SUCCESS).done()
    (kept,) = containers()
    with pytest.raises(AlreadyFailed):
        start("exit 1", clean_up=CleanUp.ON_SUCCESS).done()
    assert [container.id for container in containers()] == [kept.id]


def test_output_json_says_permanent_or_retryable(start: Start, tmp_path: Path) -> None:
    with pytest.raises(PermanentFailure, match="bad"):
        start(saying(BAD), work_dir=tmp_path / "bad").done()
    with pytest.raises(PermanentFailure, match="can't be read"):
        start(saying("{"), work_dir=tmp_path / "malformed").done()
    again = start(f"test -e /data/x && exit 0; touch /data/x; {saying(BUSY)}", work_dir=tmp_path / "again")
    assert again.done().attempts == 2
    with pytest.raises(RetryableFailure, match="busy"):
        start(saying(BUSY), work_dir=tmp_path / "busy").done()


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), "entry cmd"),
        ((), ("arg",), "entry arg"),
        (("echo", "mine"), (), "mine"),
        (("echo", "mine"), ("arg",), "mine arg"),
    ],
)
def test_a_command_replaces_the_entry_point_and_arguments_its_cmd(
    start: Start, engine: DockerClient, command: Any, args: Any, expected: str
) -> None:
    made = engine.containers.create(BUSYBOX_IMAGE, ["true"])
    changes = ['ENTRYPOINT ["echo", "entry"]', 'CMD ["cmd"]']
    image = made.commit(changes=changes)
    made.remove()
    try:
        launch = start(*args, command=command, image=image.id)
        launch.done()
        assert launch.lines == [expected]
    finally:
        engine.images.remove(image.id, force=True)


def test_a_container_that_is_removed_half_way_is_made_anew(start: Start, containers: Any, tmp_path: Path) -> None:
    launch = start("test -e /data/go && exit 0; echo ready; sleep 60")
    eventually(lambda: launch.lines == ["ready"])
    (tmp_path / "data/go").touch()
    containers()[0].remove(force=True)
    assert launch.done().attempts == 2


HELD = """
trap 'echo told to end; exit 0' TERM; trap 'echo asked' USR1
test -e /data/go && exit 0
echo ready; while ! test -e /data/end; do sleep 0.05; done; echo done
"""


def stop(container: Any) -> None:
    container.stop(timeout=60)


def stop_and_remove(container: Any) -> None:
    container.stop(timeout=60)
    container.remove(force=True)


def restart(container: Any) -> None:
    container.restart(timeout=60)


def kill(container: Any) -> None:
    container.kill("SIGTERM")


@pytest.mark.parametrize("take", [stop, stop_and_remove, restart, kill])
def test_a_container_that_another_program_stops_is_made_anew_although_it_ends_with_0(
    start: Start, containers: Any, tmp_path: Path, take: Callable[[Any], None]
) -> None:
    launch = start(HELD)
    eventually(lambda: launch.lines == ["ready"])
    (tmp_path / "data/go").touch()
    [container] = containers()
    take(container)
    assert launch.done().attempts == 2
    assert "told to end" in launch.lines
    assert containers() == []


def test_a_container_that_another_program_has_restarted_does_not_run_beside_the_next_one(
    start: Start, containers: Any, tmp_path: Path
) -> None:
    launch = start(HELD, clean_up=CleanUp.NEVER)
    eventually(lambda: launch.lines == ["ready"])
    [container] = containers()
    restart(container)
    eventually(lambda: launch.lines.count("ready") == 2 or len(containers()) == 2)
    eventually(lambda: len(containers()) == 2)
    container.reload()
    assert container.status == "exited"
    (tmp_path / "data/end").touch()
    assert launch.done().attempts == 2


def test_a_program_that_ends_by_itself_has_succeeded_whatever_else_it_was_asked(
    start: Start, containers: Any, tmp_path: Path
) -> None:
    launch = start(HELD)
    eventually(lambda: launch.lines == ["ready"])
    containers()[0].kill("SIGUSR1")
    eventually(lambda: "asked" in launch.lines)
    (tmp_path / "data/end").touch()
    assert launch.done().attempts == 1


def test_a_container_that_was_stopped_while_its_launcher_was_away_is_made_anew(
    start: Start, containers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dies_at("created", monkeypatch), pytest.raises(Killed):
        start(HELD).done()
    [container] = containers()
    container.start()
    eventually(lambda: b"ready" in container.logs())
    (tmp_path / "data/go").touch()
    container.stop(timeout=60)
    assert start(HELD).done().attempts == 2


@pytest.mark.parametrize(("events", "attempts"), [(0, 1), (300, 2)])
def test_an_end_with_0_that_the_engine_has_forgotten_is_no_success(
    start: Start,
    engine: DockerClient,
    containers: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: int,
    attempts: int,
) -> None:
    """An engine that was restarted has no event of the end either, and may have stopped the container."""
    text = "echo run >> /data/runs"
    with dies_at("created", monkeypatch), pytest.raises(Killed):
        start(text).done()
    [container] = containers()
    container.start()
    container.wait()
    image = engine.images.get(BUSYBOX_IMAGE)
    for _ in range(events):
        assert image.tag(BUSYBOX_IMAGE)
    assert start(text).done().attempts == attempts
    assert (tmp_path / "data/runs").read_text() == "run\n" * attempts


def test_a_container_that_was_stopped_has_succeeded_if_its_output_json_says_so(start: Start, containers: Any) -> None:
    launch = start(
        f"trap '{{ {saying('{}').replace(chr(39), chr(34))}; exit 0; }}' TERM; echo ready; while :; do sleep 0.05; done"
    )
    eventually(lambda: launch.lines == ["ready"])
    containers()[0].stop(timeout=60)
    assert launch.done().attempts == 1


def test_programs_and_images_that_are_not_there_are_told(start: Start, containers: Any, tmp_path: Path) -> None:
    with pytest.raises(PermanentFailure, match=r"can't be started: .*no-such-program"):
        start(command=("no-such-program",)).done()
    with pytest.raises(PermanentFailure, match="nowhere"):
        start("x", image="nowhere.invalid/x:1", config={"pull": "never"}, work_dir=tmp_path / "never").done()
    with pytest.raises((PermanentFailure, PlatformUnavailable), match="nowhere"):
        start("x", image="nowhere.invalid/x:1", work_dir=tmp_path / "pull").done()
    with pytest.raises(PermanentFailure, match="no_such_argument"):
        start("x", config={"no_such_argument": 1}, work_dir=tmp_path / "argument").done()
    with pytest.raises(PermanentFailure, match="the Docker engine refuses"):
        start("x", config={"volumes": ["relative:also-relative"]}, work_dir=tmp_path / "volume").done()
    assert containers() == []


@pytest.mark.parametrize("state", ["created", "succeeded"])
def test_a_killed_launcher_goes_on_with_the_same_container(
    start: Start, containers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    text = "echo run >> /data/runs; echo done"
    with dies_at(state, monkeypatch), pytest.raises(Killed):
        start(text).done()
    (before,) = containers()
    launch = start(text)
    assert launch.done().attempts == 1
    assert (tmp_path / "data/runs").read_text() == "run\n"
    assert any(before.name in line for line in launch.messages)
    assert containers() == []


def test_the_command_line_launches_stops_and_resumes(docker_url: str, containers: Any, tmp_path: Path) -> None:
    script = "trap 'echo saved; exit 0' TERM; echo ready; while ! test -e /data/go; do sleep 0.1; done; echo finished"
    container = {"image": BUSYBOX_IMAGE, "command": list(SHELL), "args": [script]}
    config = {"network_mode": "none", "volumes": {str(tmp_path): {"bind": "/data", "mode": "rw"}}}
    document = {"name": "step", "container": container, "platforms": {"docker": config}}
    (tmp_path / "component.yaml").write_text(yaml.safe_dump(document))
    cli = Cli(tmp_path, DOCKER_HOST=docker_url)

    with cli.start("launch", "component.yaml") as process:
        process.until("ready")
        assert process.end(signal.SIGTERM) == 128 + signal.SIGTERM
        assert "saved" in process.output.splitlines(), "it has its grace period"
    assert containers() == []

    with cli.start("launch", "component.yaml") as process:
        process.until("ready")
        process.end(signal.SIGKILL)
    (running,) = containers()
    with cli.start("launch", "component.yaml", "--resume") as process:
        process.until(f"continuing with {running.name}")
        (tmp_path / "go").touch()
        assert process.wait() == 0, process.output
        assert "finished" in process.output.splitlines()
    assert containers() == []


def test_the_example_counts_words(docker_url: str, tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "examples/launcher/component.yaml").read_text())
    document["container"]["image"] = BUSYBOX_IMAGE  # there is no registry to get the example's from
    document["platforms"]["docker"] = {"network_mode": "none", "volumes": {str(tmp_path): {"bind": "/data"}}}
    (tmp_path / "component.yaml").write_text(yaml.safe_dump(document))
    (tmp_path / "text").write_text("to be or not to be\n")
    uris = ["--input", "text=/data/text", "--output", "counts=/data/counts", "--param", "top=2"]
    done = Cli(tmp_path, DOCKER_HOST=docker_url).run("launch", "component.yaml", "--launcher", "docker", *uris)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "the 2 most frequent words are in /data/counts\n"
    assert {tuple(line.split()) for line in (tmp_path / "counts").read_text().splitlines()} == {
        ("2", "to"),
        ("2", "be"),
    }


def test_output_json_comes_from_an_engine_whose_directories_the_launcher_does_not_see(
    start: Start, tmp_path: Path
) -> None:
    """As with an engine on another machine: the launcher's own look at the path finds nothing."""

    class Elsewhere:
        def clear(self, tmp_path: str) -> None:
            Path(tmp_path).mkdir(parents=True, exist_ok=True)
            Path(tmp_path).chmod(0o1777)

        def read(self, tmp_path: str) -> None:
            return None

    large = {"error_status": {"code": "PERMANENT_ERROR", "message": "bad data"}, "exec_properties": {"x": "y" * 9000}}
    with pytest.raises(PermanentFailure, match="bad data"):
        start(saying(json.dumps(large)), store=Elsewhere()).done()
    odd = "mkdir {{ exec_props.tmp_path }}/output.json"
    with pytest.raises(PermanentFailure, match=r"output\.json"):
        start(odd, store=Elsewhere(), work_dir=tmp_path / "odd").done()
