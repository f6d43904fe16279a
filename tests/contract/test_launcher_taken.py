"""Steps whose pods are taken away, on a node whose programs answer SIGTERM with exit code 0, under either API server.

A program that got SIGTERM has not succeeded because it obeys; a program that had ended before has succeeded.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import ApiServer
from tests.contract.launches import Start, player, pod_launches
from tests.contract.nodes import NODE, Node
from tests.contract.support import PODS, Json, Space, decode, nothing_left
from tests.support.eventually import eventually
from tests.support.launching import Killed, PodPlayer, dies_at
from tests.support.taken_steps import SHARDS, reporting, script, shards, written
from tfoperator.kube.protocol.errors import BadRequestError
from tfoperator.launcher import Artifact, KubernetesPodPlatformConfig, LaunchContext, PermanentFailure
from tfoperator.launcher.platforms.stopping import stop_recorded
from tfoperator.local.node.node_api import NODES

__all__ = ["player"]

Take = Callable[[Space, str], None]


def delete(space: Space, pod: str) -> None:
    space.delete(PODS, pod)


def evict(space: Space, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": space.namespace}}
    answer = space.http("POST", space.path(PODS, pod, "eviction"), body)
    assert answer.code == 201, answer


def drain(space: Space, pod: str) -> None:
    """Drain the node as `kubectl drain` does: it gets no new pods, and its pods are evicted."""
    space.client.patch(NODES, "", NODE, {"spec": {"unschedulable": True}}, decode)
    evict(space, pod)


TAKES = pytest.mark.parametrize("take", [delete, evict, drain])


@pytest.fixture
def node(api_server: ApiServer, space: Space, tmp_path: Path) -> Iterator[Node]:
    with nothing_left(), Node(api_server, space, tmp_path) as started:
        yield started


@pytest.fixture
def start(node: Node, space: Space, tmp_path: Path) -> Iterator[Start]:
    with pod_launches(space, tmp_path, KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 60})) as launch:
        yield launch


@TAKES
def test_a_program_that_answers_sigterm_with_0_is_run_again(
    take: Take,
    start: Start,
    player: PodPlayer,
    space: Space,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    launch = start(shards(tmp_path))
    eventually(lambda: "five are written" in launch.lines)
    take(space, player.the_pod(1))
    result = launch.done()
    assert (result.attempts, written(tmp_path)) == (2, SHARDS)
    assert [line for line in launch.lines if line.endswith("written")] == ["five are written", "all are written"]
    assert "told to end" in launch.lines
    assert "so exit code 0 does not prove that the work was done" in caplog.text


@TAKES
def test_a_program_that_had_ended_before_has_succeeded(
    take: Take, start: Start, player: PodPlayer, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its launcher is away meanwhile; a container beside it keeps the pod."""
    runs, go = tmp_path / "runs", tmp_path / "go"
    component = script(f"echo once >> {runs}")
    wait = ["sh", "-c", f"trap '' TERM; until [ -e {go} ]; do sleep 0.05; done"]
    beside = {"name": "beside", "image": "example.invalid/x:1", "command": wait}
    config = KubernetesPodPlatformConfig({"containers": [{"name": "main"}, beside]})
    killed(start, monkeypatch, component, config)
    name = player.the_pod(1)
    ended = eventually(lambda: finished(space, name), what="the program has ended")
    eventually(lambda: datetime.now(UTC).replace(microsecond=0) > ended, what="a later second")
    take(space, name)
    assert space.get(PODS, name)["metadata"]["deletionTimestamp"]
    assert start(component, config).done().attempts == 1
    assert runs.read_text() == "once\n"
    go.touch()
    player.is_gone(name)


def killed(start: Start, monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> None:
    """A launch that dies when its pod is there."""
    with dies_at("created", monkeypatch), pytest.raises(Killed):
        start(*arguments).done()


def finished(space: Space, pod: str) -> datetime | None:
    """When the component's container ended; None if it has not."""
    for status in space.get(PODS, pod).get("status", {}).get("containerStatuses", ()):
        if status["name"] == "main" and (state := status["state"].get("terminated")):
            return datetime.fromisoformat(state["finishedAt"])
    return None


@TAKES
def test_a_program_whose_output_json_says_that_it_is_done_has_succeeded(
    take: Take, start: Start, player: PodPlayer, space: Space
) -> None:
    launch = start(reporting())
    eventually(lambda: launch.lines == ["ready"])
    take(space, player.the_pod(1))
    result = launch.done()
    assert (result.attempts, result.outputs) == (1, {"o": (Artifact("/new"),)})


def taken_and_held(take: Take, player: PodPlayer, space: Space, folder: Path) -> str:
    """Take the first pod when five shards are written; a finalizer will keep it after its end. Return its name."""
    name = player.the_pod(1)
    eventually((folder / "mark").exists, what="five are written")
    space.json_patch(PODS, name, {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/keep"]})
    take(space, name)
    return name


def taken_and_kept(take: Take, player: PodPlayer, space: Space, folder: Path) -> str:
    """As `taken_and_held`; return when the program has ended."""
    name = taken_and_held(take, player, space, folder)
    eventually(lambda: finished(space, name), what="the program has ended")
    return name


def log(space: Space, pod: str) -> str:
    """The log of the pod's program; empty while the pod's status does not show yet that its container has started."""
    try:
        with space.client.pod_log(space.namespace, pod, "main") as pieces:
            return b"".join(pieces).decode()
    except BadRequestError as error:
        if "is waiting to start" not in str(error):
            raise
        return ""


def confirmed(space: Space, pod: str) -> Json | None:
    """The metadata of a pod whose node has confirmed that nothing of it runs any more; None before."""
    metadata = space.get(PODS, pod)["metadata"]
    return metadata if metadata["deletionGracePeriodSeconds"] == 0 else None


@TAKES
def test_a_pod_that_is_taken_while_its_launcher_is_away_is_lost(
    take: Take, start: Start, player: PodPlayer, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next launcher adopts the pod of the killed launcher, and sees its end alone."""
    killed(start, monkeypatch, shards(tmp_path))
    name = taken_and_kept(take, player, space, tmp_path)
    launch = start(shards(tmp_path))
    eventually(lambda: "told to end" in launch.lines, what="it has adopted the pod, and shows its log", within=20)
    space.json_patch(PODS, name, {"op": "remove", "path": "/metadata/finalizers"})
    assert launch.done().attempts == 2
    assert written(tmp_path) == SHARDS


@TAKES
def test_a_pod_that_was_taken_is_no_success_for_who_stops_what_a_runner_has_left(
    take: Take, start: Start, player: PodPlayer, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(start, monkeypatch, shards(tmp_path))
    name = taken_and_kept(take, player, space, tmp_path)
    context = LaunchContext(namespace=space.namespace, kube=space.new_client)
    record = stop_recorded(tmp_path / "work", context, "its runner has died")
    space.json_patch(PODS, name, {"op": "remove", "path": "/metadata/finalizers"})
    assert (record.state, record.output) == ("retryable", None)


@pytest.mark.parametrize("take", [evict, drain])
def test_what_took_a_pod_stays_in_its_status_when_its_node_reports_its_end(
    take: Take, start: Start, player: PodPlayer, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(start, monkeypatch, shards(tmp_path))
    name = taken_and_kept(take, player, space, tmp_path)
    shown = {
        condition["type"]: condition["reason"]
        for condition in space.get(PODS, name)["status"]["conditions"]
        if "reason" in condition
    }
    assert shown["DisruptionTarget"] == "EvictionByEvictionAPI"
    assert shown["Ready"] == "PodCompleted"


def test_a_pod_whose_deletion_looks_later_than_its_programs_end_is_lost(
    start: Start, player: PodPlayer, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another container ends seconds later: then its node confirms the deletion, and a finalizer keeps the pod."""
    go = tmp_path / "go"
    wait = ["sh", "-c", f"trap '' TERM; until [ -e {go} ]; do sleep 0.05; done"]
    beside = {"name": "beside", "image": "example.invalid/x:1", "command": wait}
    config = KubernetesPodPlatformConfig(
        {"terminationGracePeriodSeconds": 60, "containers": [{"name": "main"}, beside]}
    )
    killed(start, monkeypatch, shards(tmp_path), config)
    name = taken_and_held(delete, player, space, tmp_path)
    eventually(lambda: "told to end" in log(space, name), what="the program ends")
    told_at = datetime.now(UTC)
    eventually(lambda: datetime.now(UTC) > told_at + timedelta(seconds=3), what="three seconds later")
    go.touch()
    metadata = eventually(lambda: confirmed(space, name), what="its node has confirmed the deletion")
    ended = finished(space, name)
    assert ended is not None
    assert datetime.fromisoformat(metadata["deletionTimestamp"]) > ended
    launch = start(shards(tmp_path), config)
    eventually(lambda: "told to end" in launch.lines, what="it has adopted the pod, and shows its log", within=20)
    space.json_patch(PODS, name, {"op": "remove", "path": "/metadata/finalizers"})
    assert launch.done().attempts == 2
    assert written(tmp_path) == SHARDS


def test_exit_code_0_at_the_time_limit_of_a_pod_is_a_failure(start: Start, tmp_path: Path) -> None:
    limited = KubernetesPodPlatformConfig({"activeDeadlineSeconds": 1})
    launch = start(shards(tmp_path), limited)
    with pytest.raises(PermanentFailure, match="DeadlineExceeded"):
        launch.done()
    assert "told to end" in launch.lines
