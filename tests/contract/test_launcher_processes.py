"""Launches whose pods really run: the node agent runs their commands as processes, under either API server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import ApiServer
from tests.contract.support import Space, decode
from tests.support.eventually import eventually
from tests.support.fake_kubelet import FakeKubelet
from tests.support.launching import QUICK, Background, PodPlayer, step, text_in
from tests.support.scripted_proxy import Rule, ScriptedProxy
from tests.support.threads import no_threads_left
from tfoperator.kube import Client, ClusterConfig
from tfoperator.kube.config import load_config
from tfoperator.kube.resources import Resource
from tfoperator.launcher import (
    Artifact,
    Component,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchCancelled,
    LaunchContext,
    PermanentFailure,
)
from tfoperator.local.node_api import NODES
from tfoperator.local.nodeagent import NodeAgent
from tfoperator.local.process_runtime import ProcessRuntime

NODE = "node-of-processes"


class OneNamespace:
    """A client whose watches of everything see one namespace only: the others' pods are not this agent's."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def list_watch(self, resource: Resource, namespace: str, decode: Any, **selection: Any) -> Any:
        return self._client.list_watch(resource, namespace or self._namespace, decode, **selection)


class Node:
    """A node agent for one namespace, whose logs the API server can read."""

    def __init__(self, server: ApiServer, space: Space, folder: Path) -> None:
        self._server = server
        self._client = space.client
        runtime = ProcessRuntime(records=folder / "records", work_dir=folder)
        client: Any = OneNamespace(space.client, space.namespace)
        self._agent = NodeAgent(client, run_dir=folder, runtime=runtime, node_name=NODE)
        self._kubelet = FakeKubelet(self._agent.logs.read)

    def __enter__(self) -> Node:
        self._kubelet.__enter__()
        self._agent.start()
        if self._server.embedded is not None:
            self._server.embedded.set_log_reader(self._agent.logs.read)
        else:
            patch = {"status": self._kubelet.node_status}
            self._client.patch(NODES, "", NODE, patch, decode, subresource="status")
        return self

    def __exit__(self, *details: object) -> None:
        self._agent.stop(grace=0.0)
        self._kubelet.__exit__(*details)
        self._client.delete(NODES, "", NODE)


@pytest.fixture
def node(api_server: ApiServer, space: Space, tmp_path: Path) -> Iterator[Node]:
    with no_threads_left(), Node(api_server, space, tmp_path) as one:
        yield one


@pytest.fixture
def player(space: Space) -> PodPlayer:
    return PodPlayer(space.client, space.namespace)


Start = Callable[..., Background]


@pytest.fixture
def start(node: Node, space: Space, tmp_path: Path) -> Iterator[Start]:
    started: list[Background] = []

    def launch(component: Component, **options: Any) -> Background:
        def make(background: Background) -> KubernetesPodComponentLauncher:
            context = LaunchContext(
                work_dir=tmp_path / "work",
                retry=QUICK,
                namespace=space.namespace,
                log=background.lines.append,
                tell=background.told.append,
                **{"kube": lambda: Client(load_config(str(space.kubeconfig)), qps=-1), **options},
            )
            config = KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 5})
            return KubernetesPodComponentLauncher(component, config, context=context)

        started.append(Background(make))
        return started[-1]

    yield launch
    for one in started:
        one.end()


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


def test_an_exit_code_is_a_permanent_failure(start: Start) -> None:
    launch = start(script("echo last words; exit 3"))
    with pytest.raises(PermanentFailure, match="exit code 3"):
        launch.done()
    assert launch.lines == ["last words"]


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
            return Client(ClusterConfig(server=proxy.url, credentials=config.credentials), qps=-1)

        launch = start(script(f"{text}; while ! test -e {go}; do sleep 0.02; done; echo the end"), kube=connect)
        eventually(lambda: proxy.count("GET .*/log") >= 4, within=20)
        eventually(lambda: len(launch.lines) == 300)
        go.touch()
        launch.done()
    assert launch.lines == [*(f"line {number}" for number in range(1, 301)), "the end"]


PROGRAM = """
import sys
from pathlib import Path
from tfoperator.kube import Client
from tfoperator.kube.config import load_config
from tfoperator.launcher import Component, ExecutorContainerSpec, KubernetesPodComponentLauncher, LaunchContext
kubeconfig, namespace, work, text = sys.argv[1:]
context = LaunchContext(work_dir=Path(work), namespace=namespace, kube=lambda: Client(load_config(kubeconfig)))
component = Component("step", ExecutorContainerSpec("example.invalid/x:1", ["sh", "-c", text]))
print("outcome:", KubernetesPodComponentLauncher(component, context=context).launch().attempts)
"""


def test_a_launcher_that_is_killed_goes_on_with_the_same_pod(node: Node, space: Space, tmp_path: Path) -> None:
    go, player = tmp_path / "go", PodPlayer(space.client, space.namespace)
    text = f"echo first; while ! test -e {go}; do sleep 0.02; done; echo second"
    arguments = [sys.executable, "-c", PROGRAM, str(space.kubeconfig), space.namespace, str(tmp_path / "work"), text]

    first = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert first.stdout is not None
    assert first.stdout.readline() == "first\n"
    uid = player.pods()[player.the_pod()]["metadata"]["uid"]
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    first.stdout.close()
    assert player.pods()[player.the_pod()]["metadata"]["uid"] == uid

    second = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env={**os.environ})
    go.touch()
    said, _ = second.communicate(timeout=30)
    assert second.returncode == 0
    assert said.splitlines()[-2:] == ["second", "outcome: 1"]
    assert player.pods() == {}
