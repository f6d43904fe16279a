"""A launcher's pod, with the test as its kubelet: the launcher's result for everything that can happen to a pod."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.launches import Start, player, start
from tests.contract.support import PODS, Space
from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.launching import Background, Killed, PodPlayer, dies_at, step
from tfoperator.launcher import (
    AlreadyFailed,
    Artifact,
    CleanUp,
    KubernetesPodPlatformConfig,
    LaunchCancelled,
    PendingLimits,
    PermanentFailure,
    RetryableFailure,
)

__all__ = ["player", "start"]

AT_ONCE = KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 0})
"""For pods on a node: there is no kubelet that would end them gracefully."""


def test_the_pod_is_what_component_and_config_say(start: Start, player: PodPlayer, tmp_path: Path) -> None:
    limits = {"limits": {"memory": "128Mi", "cpu": "500m"}}
    config = KubernetesPodPlatformConfig(
        {"containers": [{"name": "main", "resources": limits}], "terminationGracePeriodSeconds": 0},
        labels={"team": "vision"},
        annotations={"note": ""},
    )
    component = step("count", "{{ inputs.text.uri }}", inputs={"text": [Artifact("/data/a")]})
    launch = start(component, config)
    name = player.the_pod()
    pod = player.pods()[name]
    (main,) = pod["spec"]["containers"]

    assert pod["metadata"]["labels"].items() >= {"team": "vision", "tfoperator.launcher/component": "step"}.items()
    assert pod["metadata"]["annotations"]["note"] == ""
    assert (main["name"], main["command"]) == ("main", ["count", "/data/a"])
    assert main["resources"]["limits"] == limits["limits"]
    assert main["terminationMessagePath"] == f"{tmp_path}/work/tmp/output.json"
    assert (pod["spec"]["restartPolicy"], pod["spec"]["terminationGracePeriodSeconds"]) == ("Never", 0)
    player.runs(name)
    player.ends(name)
    result = launch.done()
    assert (result.attempts, result.image_id) == (1, "x@sha256:" + "a" * 64)
    player.is_gone(name)


def test_output_json_comes_back_as_the_termination_message(start: Start, player: PodPlayer) -> None:
    output = {"outputs": {"o": {"uri": "/new", "properties": {"rows": 3}}}, "exec_properties": {"seen": True}}
    launch = start(step(outputs={"o": [Artifact("/old")]}))
    player.ends(player.the_pod(), message=json.dumps(output))
    result = launch.done()
    assert result.outputs == {"o": (Artifact("/new", {"rows": 3}),)}
    assert result.exec_properties == {"seen": True}


@pytest.mark.parametrize(("message", "uri"), [('{"outputs": {"o": {"uri": "/new"}}}', "/new"), ("", "/old")])
def test_an_empty_file_on_a_volume_in_common_over_which_the_kubelet_has_mounted_its_own_is_no_report(
    start: Start, player: PodPlayer, tmp_path: Path, message: str, uri: str
) -> None:
    launch = start(step(outputs={"o": [Artifact("/old")]}))
    name = player.the_pod()
    (tmp_path / "work/tmp/output.json").touch()
    player.ends(name, message=message)
    assert launch.done().outputs == {"o": (Artifact(uri),)}


def test_a_report_that_kubernetes_has_cut_is_a_failure_even_after_exit_code_0(start: Start, player: PodPlayer) -> None:
    """The kubelet keeps the last 4096 bytes: the head, which had the failure, is missing."""
    whole = json.dumps({"error_status": {"code": "PERMANENT_ERROR", "message": "x" * 5000}})
    launch = start()
    player.ends(player.the_pod(), message=whole[-4096:])
    with pytest.raises(PermanentFailure, match=r"output\.json.*4096 bytes.*tmp_path"):
        launch.done()


@pytest.mark.parametrize(
    ("code", "message", "reason", "words"),
    [
        (1, "", "", "exit code 1"),
        (3, "no such table", "", "exit code 3: no such table"),
        (137, "", "OOMKilled", "exit code 137: OOMKilled"),
        (0, '{"error_status": {"code": "PERMANENT_ERROR", "message": "bad data"}}', "", "bad data"),
        (0, '{"error_status": ', "", "output.json can't be read"),
    ],
)
def test_a_failure_is_permanent_and_remembered(
    start: Start, player: PodPlayer, code: int, message: str, reason: str, words: str
) -> None:
    launch = start(clean_up=CleanUp.ON_SUCCESS)
    name = player.the_pod()
    player.ends(name, code, message, reason)
    with pytest.raises(PermanentFailure, match=words):
        launch.done()
    with pytest.raises(AlreadyFailed, match=words):
        start().done()
    assert list(player.pods()) == [name], "nothing was launched again, and the pod is kept for a look at it"


def test_a_retryable_output_is_another_pod_with_another_name(start: Start, player: PodPlayer) -> None:
    busy = '{"error_status": {"code": "RETRYABLE_ERROR", "message": "busy"}}'
    launch = start()
    player.ends(player.the_pod(1), 1, busy)
    player.ends(player.the_pod(2))
    assert launch.done().attempts == 2

    launch = start(work_dir=launch.launcher.work.path.parent / "other")
    for attempt in (1, 2, 3):
        player.ends(player.the_pod(attempt), 1, busy)
    with pytest.raises(RetryableFailure, match="busy"):
        launch.done()


def test_a_pod_that_is_evicted_deleted_or_terminates_because_it_was_deleted_is_made_anew(
    start: Start, player: PodPlayer, space: Space
) -> None:
    launch = start()
    player.status(player.the_pod(1), "Failed", reason="Evicted", message="The node was low on memory.")
    second = player.the_pod(2)
    player.runs(second)
    player.end_pod(second)
    third = player.the_pod(3)
    assert third != second
    player.ends(third)
    assert launch.done().attempts == 3

    launch = start(work_dir=launch.launcher.work.path.parent / "other")
    first = player.the_pod(1)
    player.bind(first)
    player.runs(first)
    space.delete(PODS, first)  # graceful, as it is on a node
    player.ends(first, 143)
    player.ends(player.the_pod(2))
    assert launch.done().attempts == 2


def test_a_success_that_is_cleared_away_before_it_was_seen_is_a_success(
    start: Start, player: PodPlayer, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    launch = start(tmp_path=str(shared))
    first = player.the_pod()
    player.runs(first)
    eventually(lambda: (shared / "output.json").parent.exists())
    (shared / "output.json").write_text("{}")
    player.end_pod(first)
    assert launch.done().attempts == 1


def test_a_sidecar_that_goes_on_does_not_hold_up_the_component(start: Start, player: PodPlayer) -> None:
    sidecar = KubernetesPodPlatformConfig({"containers": [{"name": "side", "image": "s"}]})
    launch = start(config=sidecar)
    name = player.the_pod()
    player.status(name, "Running", {"terminated": {"exitCode": 0, "reason": "Completed"}})
    assert launch.done().attempts == 1
    player.is_gone(name)


def test_a_pod_that_is_refused_is_a_permanent_failure(start: Start) -> None:
    config = KubernetesPodPlatformConfig({"containers": [{"name": "main", "imagePullPolicy": "Sometimes"}]})
    with pytest.raises(PermanentFailure, match="imagePullPolicy"):
        start(config=config).done()
    with pytest.raises(AlreadyFailed):
        start(config=config).done()


# Pending.


@pytest.mark.parametrize(
    ("limit", "reason", "message", "words"),
    [
        (0.2, "ImagePullBackOff", "Back-off pulling image", r"ImagePullBackOff.*pull access denied"),
        (600, "InvalidImageName", "Failed to apply default image tag", "InvalidImageName"),
    ],
    ids=["soon", "at once"],
)
def test_an_image_that_can_not_be_had_fails_the_launch_and_says_why(
    start: Start, player: PodPlayer, limit: float, reason: str, message: str, words: str
) -> None:
    launch = start(config=AT_ONCE, pending=PendingLimits(image=limit))
    name = player.the_pod()
    player.bind(name)
    player.event(name, "Failed", "pull access denied for example.invalid/x")
    player.waits(name, reason, message)
    with pytest.raises(PermanentFailure, match=words):
        launch.done()
    player.is_gone(name)
    assert any(reason in line for line in launch.messages)


def test_a_pod_that_no_node_takes_fails_in_time(start: Start, player: PodPlayer) -> None:
    clock = FakeClock()
    launch = start(pending=PendingLimits(schedule=600), clock=clock)
    name = player.the_pod()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
    player.status(name, "Pending", conditions=[condition])
    eventually(lambda: any("0/3 nodes fit" in message for message in launch.messages))
    clock.advance(600)
    with pytest.raises(PermanentFailure, match=r"has not been scheduled to a node after 600 s: .* 0/3 nodes fit"):
        launch.done()
    player.is_gone(name)


def test_a_pull_that_succeeds_in_time_is_no_failure(start: Start, player: PodPlayer) -> None:
    launch = start(config=AT_ONCE, pending=PendingLimits(image=600))
    name = player.the_pod()
    player.bind(name)
    player.waits(name, "ErrImagePull", "registry is down")
    eventually(lambda: any("ErrImagePull" in message for message in launch.messages))
    player.runs(name)
    player.ends(name)
    assert launch.done().attempts == 1


# Cancelling.


def test_a_cancelled_launch_removes_its_pod_and_is_not_tried_again(start: Start, player: PodPlayer) -> None:
    launch = start(config=AT_ONCE)
    name = player.the_pod()
    player.runs(name)
    launch.launcher.cancel()
    with pytest.raises(LaunchCancelled):
        launch.done()
    assert player.pods() == {}
    again = start(config=AT_ONCE)
    player.ends(player.the_pod())
    assert again.done().attempts == 1


# Launchers that die.


def test_a_launcher_killed_between_create_and_record_finds_its_pod(
    start: Start, player: PodPlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start_killed(start, monkeypatch, "created")
    name = player.the_pod()
    uid = player.pods()[name]["metadata"]["uid"]
    assert first.launcher.record.uid == ""

    second = start()
    eventually(lambda: second.launcher.work.path.joinpath("launch.json").read_text().count(uid))
    player.ends(name)
    assert second.done().attempts == 1
    assert player.pods() == {}


def start_killed(start: Start, monkeypatch: pytest.MonkeyPatch, state: str) -> Background:
    """A launch that dies when it would write down that it has come to a state."""
    with dies_at(state, monkeypatch):
        launch = start()
        with pytest.raises(Killed):
            launch.done()
    return launch


def test_a_launcher_killed_before_the_outcome_was_recorded_sees_it_again(
    start: Start, player: PodPlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    threading.Timer(0.0, lambda: player.ends(player.the_pod())).start()
    start_killed(start, monkeypatch, "succeeded")
    name = player.the_pod()
    assert start().done().attempts == 1
    player.is_gone(name)


def test_a_success_whose_pod_is_left_is_cleared_up_on_the_next_launch(
    start: Start, player: PodPlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfoperator.launcher.platforms.kubernetes.object_backend import ObjectBackend

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ObjectBackend, "remove", die)
        launch = start()
        name = player.the_pod()
        player.ends(name)
        with pytest.raises(Killed):
            launch.done()
    assert list(player.pods()) == [name]
    assert start().done().attempts == 1
    player.is_gone(name)


def test_an_older_attempts_finished_pod_is_never_adopted(
    start: Start, player: PodPlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = start(clean_up=CleanUp.NEVER)
    first = player.the_pod(1)
    player.ends(first, 1, '{"error_status": {"code": "RETRYABLE_ERROR"}}')
    second = player.the_pod(2)
    assert player.pods().keys() == {first, second}
    player.ends(second)
    assert launch.done().attempts == 2
