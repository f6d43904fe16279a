"""A launcher's pod, with the test as its kubelet: what the launcher makes of everything that can become of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import ApiServer
from tests.contract.support import PODS, Space
from tests.support.eventually import eventually
from tests.support.launching import QUICK, Background, Killed, PodPlayer, step
from tests.support.scripted_proxy import Rule, ScriptedProxy
from tests.support.threads import no_threads_left
from tfoperator.kube import Client, ClusterConfig, ForbiddenError
from tfoperator.kube.config import load_config
from tfoperator.kube.credentials import TokenFile
from tfoperator.launcher import (
    AlreadyFailed,
    Artifact,
    CleanUp,
    Component,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchCancelled,
    LaunchContext,
    PendingLimits,
    PermanentFailure,
    PlatformConfig,
    PlatformUnavailable,
    RetryableFailure,
)

Start = Callable[..., Background]

AT_ONCE = KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 0})
"""For pods on a node: there is no kubelet that would end them gracefully."""


@pytest.fixture
def player(space: Space) -> PodPlayer:
    return PodPlayer(space.client, space.namespace)


def _no_logs(*_: object) -> Iterator[bytes]:
    raise LookupError("nothing was written")


@pytest.fixture
def start(api_server: ApiServer, space: Space, tmp_path: Path) -> Iterator[Start]:
    """Launches in the background, with the working directory `tmp_path/work` unless told otherwise."""
    if api_server.embedded is not None:
        api_server.embedded.set_log_reader(_no_logs)
    started: list[Background] = []

    def launch(component: Component | None = None, config: PlatformConfig | None = None, **options: Any) -> Background:
        options = {"work_dir": tmp_path / "work", "retry": QUICK, "api_retry": QUICK, **options}
        options.setdefault("kube", lambda: Client(load_config(str(space.kubeconfig)), qps=-1))

        def make(background: Background) -> KubernetesPodComponentLauncher:
            context = LaunchContext(
                namespace=space.namespace, log=background.lines.append, tell=background.told.append, **options
            )
            return KubernetesPodComponentLauncher(component or step(), config, context=context)

        started.append(Background(make))
        return started[-1]

    with no_threads_left():
        yield launch
        for one in started:
            one.end()


@pytest.fixture
def proxy(api_server: ApiServer, space: Space) -> Iterator[ScriptedProxy]:
    config = load_config(str(space.kubeconfig))
    with ScriptedProxy(config.server, config.tls.ca) as one:
        yield one


def through(proxy: ScriptedProxy, space: Space, **more: Any) -> Callable[[], Client]:
    credentials = more.get("credentials") or load_config(str(space.kubeconfig)).credentials
    return lambda: Client(ClusterConfig(server=proxy.url, credentials=credentials), qps=-1)


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
    said = {"outputs": {"o": {"uri": "/new", "properties": {"rows": 3}}}, "exec_properties": {"seen": True}}
    launch = start(step(outputs={"o": [Artifact("/old")]}))
    player.ends(player.the_pod(), message=json.dumps(said))
    result = launch.done()

    assert result.outputs == {"o": (Artifact("/new", {"rows": 3}),)}
    assert result.exec_properties == {"seen": True}


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


def test_a_pod_that_is_deleted_half_way_is_made_anew(start: Start, player: PodPlayer) -> None:
    launch = start()
    first = player.the_pod(1)
    player.runs(first)
    player.delete(first)
    second = player.the_pod(2)
    player.ends(second)
    assert launch.done().attempts == 2
    assert first != second


def test_a_pod_that_terminates_because_it_was_deleted_has_not_failed(
    start: Start, player: PodPlayer, space: Space
) -> None:
    launch = start()
    first = player.the_pod(1)
    player.bind(first)
    player.runs(first)
    space.delete(PODS, first)  # graceful, as it is on a node
    player.ends(first, 143)
    player.ends(player.the_pod(2))
    assert launch.done().attempts == 2


def test_an_evicted_pod_is_made_anew(start: Start, player: PodPlayer) -> None:
    launch = start()
    player.status(player.the_pod(1), "Failed", reason="Evicted", message="The node was low on memory.")
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
    player.delete(first)
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


def test_an_image_that_can_not_be_pulled_fails_soon_and_says_why(start: Start, player: PodPlayer) -> None:
    launch = start(config=AT_ONCE, pending=PendingLimits(image=0.2))
    name = player.the_pod()
    player.bind(name)
    player.event(name, "Failed", "pull access denied for example.invalid/x")
    player.waits(name, "ImagePullBackOff", "Back-off pulling image")
    with pytest.raises(PermanentFailure, match=r"ImagePullBackOff.*pull access denied"):
        launch.done()
    player.is_gone(name)
    assert any("ImagePullBackOff" in told for told in launch.told)


def test_a_name_that_is_no_image_fails_at_once(start: Start, player: PodPlayer) -> None:
    launch = start(config=AT_ONCE)
    name = player.the_pod()
    player.bind(name)
    player.waits(name, "InvalidImageName", "Failed to apply default image tag")
    with pytest.raises(PermanentFailure, match="InvalidImageName"):
        launch.done()


def test_a_pod_that_no_node_takes_fails_in_time(start: Start, player: PodPlayer) -> None:
    launch = start(pending=PendingLimits(schedule=0.2))
    name = player.the_pod()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
    player.status(name, "Pending", conditions=[condition])
    with pytest.raises(PermanentFailure, match=r"has not been scheduled after .* 0/3 nodes fit"):
        launch.done()
    player.is_gone(name)


def test_a_pull_that_succeeds_in_time_is_no_failure(start: Start, player: PodPlayer) -> None:
    launch = start(config=AT_ONCE, pending=PendingLimits(image=20))
    name = player.the_pod()
    player.bind(name)
    player.waits(name, "ErrImagePull", "registry is down")
    eventually(lambda: any("ErrImagePull" in told for told in launch.told))
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
    from tfoperator.launcher.record import LaunchRecord, WorkDirectory

    save = WorkDirectory.save

    def save_or_die(work: WorkDirectory, record: LaunchRecord) -> None:
        if record.state == state:
            raise Killed
        save(work, record)

    with monkeypatch.context() as patch:
        patch.setattr(WorkDirectory, "save", save_or_die)
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
    from tfoperator.launcher.pod_backend import PodBackend

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(PodBackend, "remove", die)
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


# Bad weather.


def test_a_create_whose_answer_is_lost_makes_one_pod(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    proxy.script(Rule("POST .*/pods", lose=True))
    launch = start(kube=through(proxy, space))
    name = player.the_pod()
    eventually(lambda: proxy.count("POST .*/pods") == 2)
    player.ends(name)
    assert launch.done().attempts == 1


def test_a_create_is_repeated_over_429_500_503_and_409(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    refusals = ((429, {}), (500, {}), (503, {}), (409, {}), (429, {"Retry-After": "1"}))
    proxy.script(*[Rule("POST .*/pods", code=code, headers=headers) for code, headers in refusals])
    launch = start(kube=through(proxy, space), api_retry=type(QUICK)(attempts=8, initial=0.01, maximum=0.05))
    player.ends(player.the_pod())
    assert launch.done().attempts == 1
    assert proxy.count("POST .*/pods") == 6


def test_clearing_up_is_tried_again_and_never_changes_the_outcome(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space, tmp_path: Path
) -> None:
    proxy.script(Rule("DELETE .*/pods", code=500), Rule("DELETE .*/pods", code=429))
    launch = start(kube=through(proxy, space))
    name = player.the_pod()
    player.ends(name)
    assert launch.done().attempts == 1
    assert proxy.count("DELETE .*/pods") == 3
    player.is_gone(name)

    proxy.script(Rule("DELETE .*/pods", code=403))
    launch = start(kube=through(proxy, space), work_dir=tmp_path / "other")
    name = player.the_pod()
    player.ends(name)
    assert launch.done().attempts == 1
    assert list(player.pods()) == [name]


def test_an_api_that_fails_for_too_long_is_retryable_and_taken_up_later(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    proxy.script(Rule("POST .*/pods", code=500, times=3))
    launch = start(kube=through(proxy, space))
    with pytest.raises(PlatformUnavailable):
        launch.done()
    assert player.pods() == {}
    again = start(kube=through(proxy, space))
    player.ends(player.the_pod())
    assert again.done().attempts == 1


def test_a_refusal_is_told_at_once_and_nothing_is_recorded_against_the_component(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space
) -> None:
    proxy.script(Rule("POST .*/pods", code=403, reason="Forbidden"))
    with pytest.raises(ForbiddenError):
        start(kube=through(proxy, space)).done()
    again = start()
    player.ends(player.the_pod())
    assert again.done().attempts == 1


def test_watches_that_fail_and_tokens_that_expire_do_no_harm(
    start: Start, player: PodPlayer, proxy: ScriptedProxy, space: Space, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    good = load_config(str(space.kubeconfig)).credentials.authorization()
    token.write_text("old")
    proxy.script(
        Rule("POST .*/pods", code=401, authorization="Bearer old", times=99),
        Rule("GET .*/pods.*watch=true", code=500),
        Rule("GET .*/pods.*watch=true", code=401),
        Rule("GET .*/pods.*watch=true", code=410),
        Rule("GET .*/pods.*watch=true", cut_after=10),
    )
    launch = start(kube=through(proxy, space, credentials=TokenFile(token)))
    eventually(lambda: proxy.count("POST .*/pods") >= 1)
    token.write_text(good.removeprefix("Bearer "))
    name = player.the_pod()
    eventually(lambda: proxy.count("watch=true") >= 4, within=25)
    player.runs(name)  # its event is cut off
    eventually(lambda: proxy.count("watch=true") >= 5, within=25)
    player.ends(name)
    assert launch.done().attempts == 1
