"""Launches whose pods really run: the node agent runs their commands as processes, under either API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import ApiServer
from tests.contract.launches import Start, player, pod_launches
from tests.contract.nodes import Node
from tests.contract.support import Space, nothing_left
from tests.support.eventually import eventually
from tests.support.launching import PodPlayer, step, text_in
from tests.support.scripted_proxy import Rule, ScriptedProxy
from tfoperator.kube import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.loading import load_config
from tfoperator.launcher import Artifact, Component, KubernetesPodPlatformConfig, LaunchCancelled

__all__ = ["player"]


@pytest.fixture
def node(api_server: ApiServer, space: Space, tmp_path: Path) -> Iterator[Node]:
    with nothing_left(), Node(api_server, space, tmp_path) as started:
        yield started


@pytest.fixture
def start(node: Node, space: Space, tmp_path: Path) -> Iterator[Start]:
    with pod_launches(space, tmp_path, KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 60})) as launch:
        yield launch


def script(text: str, **more: Any) -> Component:
    return step("sh", "-c", text, **more)


def test_inputs_outputs_and_parameters_reach_the_container_and_its_log_comes_back(
    start: Start, player: PodPlayer, tmp_path: Path
) -> None:
    component = step(
        "sh", "-ec", 'head -n "$3" "$1" > "$2"; wc -l < "$2"; echo to stderr >&2', "count",
        "{{ inputs.text.uri }}", "{{ outputs.head.uri }}", "{{ exec_properties.lines }}",
        inputs={"text": [Artifact(text_in(tmp_path, "in", "a\nb\nc\n"))]},
        outputs={"head": [Artifact(str(tmp_path / "out"))]},
        exec_properties={"lines": 2},
    )  # fmt: skip
    launch = start(component)
    result = launch.done()

    assert (tmp_path / "out").read_text() == "a\nb\n"
    assert [line.strip() for line in launch.lines] == ["2", "to stderr"]
    assert result.outputs == {"head": (Artifact(str(tmp_path / "out")),)}
    assert player.pods() == {}


def test_a_value_is_no_reference_to_a_variable_of_the_pod(start: Start) -> None:
    """Kubernetes expands `$(NAME)` in arguments: what comes from outside must not reach the pod's secrets so."""
    values = ["$(DB_PASSWORD)", "$$(DB_PASSWORD)", "(DB_PASSWORD)", "DB_PASSWORD", "$HOME $5 $$ $( $", "$"]
    words = [f"{{{{ exec_properties.v{position} }}}}" for position in range(len(values))]
    component = step(
        "sh", "-c", 'printf "%s\\n" "$@"', "said", *words, "${{ exec_properties.v2 }}", "$({{ exec_properties.v3 }})",
        "http://{{ inputs.data.uri }}/?u=$(USER_NAME)&d=$$5",
        inputs={"data": [Artifact("$(DB_PASSWORD).example")]},
        exec_properties={f"v{position}": value for position, value in enumerate(values)},
    )  # fmt: skip
    env = [{"name": "DB_PASSWORD", "value": "s3cret"}, {"name": "USER_NAME", "value": "jane"}]
    launch = start(component, KubernetesPodPlatformConfig({"containers": [{"name": "main", "env": env}]}))
    launch.done()

    whole = ["$(DB_PASSWORD)", "$(DB_PASSWORD)", "http://$(DB_PASSWORD).example/?u=jane&d=$5"]
    assert launch.lines == [*values, *whole]


def test_output_json_says_that_another_try_helps_and_what_came_out(start: Start, tmp_path: Path) -> None:
    busy = json.dumps({"error_status": {"code": "RETRYABLE_ERROR", "message": "busy"}})
    good = json.dumps({"outputs": {"o": {"uri": "/new"}}})
    text = """
        test -e {{ exec_props.mark }} && echo '%s' > {{ exec_props.tmp_path }}/output.json && exit 0
        touch {{ exec_props.mark }}; echo '%s' > {{ exec_properties.tmp_path }}/output.json; exit 1
    """
    component = script(
        text % (good, busy), outputs={"o": [Artifact("/old")]}, exec_properties={"mark": str(tmp_path / "mark")}
    )
    result = start(component).done()

    assert (result.attempts, result.outputs) == (2, {"o": (Artifact("/new"),)})


def test_a_cancelled_component_gets_its_grace_period_and_its_last_words_are_told(
    start: Start, player: PodPlayer
) -> None:
    launch = start(script("trap 'echo cleaning up; exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
    eventually(lambda: launch.lines == ["ready"])
    launch.launcher.cancel()
    with pytest.raises(LaunchCancelled):
        launch.done()
    assert launch.lines[-1] == "cleaning up"
    assert player.pods() == {}


def test_a_log_that_is_cut_is_read_on_without_a_lost_or_doubled_line(
    start: Start, space: Space, tmp_path: Path
) -> None:
    config = load_config(str(space.kubeconfig))
    go, text = tmp_path / "go", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; done"
    with ScriptedProxy(config.server, config.tls.ca) as proxy:
        proxy.script(Rule("GET .*/log", cut_after=500), Rule("GET .*/log", code=500), Rule("GET .*/log", cut_after=900))

        def connect() -> Client:
            return Client(ClusterConfig(server=proxy.url, credentials=config.credentials))

        launch = start(script(f"{text}; while ! test -e {go}; do sleep 0.02; done; echo the end"), kube=connect)
        eventually(lambda: proxy.count("GET .*/log") >= 4)
        eventually(lambda: len(launch.lines) == 300)
        go.touch()
        launch.done()
    assert launch.lines == [*(f"line {number}" for number in range(1, 301)), "the end"]
