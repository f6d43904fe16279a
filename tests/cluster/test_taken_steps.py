"""Steps whose pods are taken away on a node with a real kubelet, whose programs answer SIGTERM with exit code 0."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.in_cluster import LIMIT, SHELL_IMAGE, InCluster
from tests.support.launching import Background, Killed, dies_at, in_background
from tests.support.taken_steps import SHARDS, reporting, script, shards, written
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.launcher import (
    Component,
    KubernetesPodComponentLauncher,
    KubernetesPodPlatformConfig,
    LaunchContext,
    PermanentFailure,
    PlatformConfig,
    TFJobComponentLauncher,
    TFJobPlatformConfig,
)

Start = Callable[..., Background]
Take = Callable[[InCluster, str], None]


def delete(namespace: InCluster, pod: str) -> None:
    namespace.kubectl("delete", "pod", pod, "--wait=false")


def evict(namespace: InCluster, pod: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace.namespace}}
    path = f"/api/v1/namespaces/{namespace.namespace}/pods/{pod}/eviction"
    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def drain(namespace: InCluster, pod: str) -> None:
    """Drain the node of what is in this namespace; `uncordoned` lets pods come again."""
    [node] = namespace.list("nodes")
    name, labels = node["metadata"]["name"], namespace.get("pod", pod)["metadata"]["labels"]
    chosen = ",".join(
        f"{key}={labels[key]}" for key in ("tfoperator.launcher/run", "training.kubeflow.org/job-name") if key in labels
    )
    drained = namespace.kubectl.run("drain", name, f"--pod-selector={chosen}", "--force", "--timeout=2s")
    namespace.kubectl("uncordon", name)
    assert f"evicting pod {namespace.namespace}/{pod}" in drained.stdout + drained.stderr, drained


def delete_at_once(namespace: InCluster, pod: str) -> None:
    namespace.kubectl("delete", "pod", pod, "--grace-period=0", "--force")


TAKES = pytest.mark.parametrize("take", [delete, evict, drain])


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder of the node that each container has at the same path."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


@pytest.fixture
def pod(shared: Path) -> dict[str, Any]:
    mount = {"name": "shared", "mountPath": str(shared)}
    return {
        "terminationGracePeriodSeconds": 30,
        "volumes": [{"name": "shared", "hostPath": {"path": str(shared)}}],
        "containers": [{"name": "main", "volumeMounts": [mount]}],
    }


@pytest.fixture
def start(namespace: InCluster, pod: dict[str, Any], tmp_path: Path) -> Iterator[Start]:
    """Launches in the background, in this namespace."""

    def connect() -> Client:
        return Client(load_config(str(namespace.cluster.kubeconfig)))

    with in_background(tmp_path) as begin:

        def launch(component: Component, config: PlatformConfig | None = None) -> Background:
            config = config or KubernetesPodPlatformConfig(pod)
            kind = TFJobComponentLauncher if isinstance(config, TFJobPlatformConfig) else KubernetesPodComponentLauncher

            def make(context: LaunchContext) -> KubernetesPodComponentLauncher | TFJobComponentLauncher:
                return kind(component, config, context=context)

            return begin(make, namespace=namespace.namespace, kube=connect)

        yield launch


def the_pod(namespace: InCluster) -> str:
    """The only pod that is there, once it is."""

    def there() -> str:
        [single_pod] = namespace.list("pods")
        return str(single_pod["metadata"]["name"])

    return eventually(there, within=LIMIT, every=0.2, what="a pod")


def finished(namespace: InCluster, name: str) -> datetime | None:
    """When the program ended; None if it has not."""
    for status in namespace.get("pod", name)["status"].get("containerStatuses", ()):
        if status["name"] in ("main", "tensorflow") and (state := status["state"].get("terminated")):
            return datetime.fromisoformat(state["finishedAt"])
    return None


@pytest.mark.parametrize("take", [delete, evict, drain, delete_at_once])
def test_a_program_that_answers_sigterm_with_0_is_run_again(
    take: Take, start: Start, namespace: InCluster, shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    launch = start(shards(shared, SHELL_IMAGE))
    eventually(lambda: "five are written" in launch.lines, within=LIMIT)
    take(namespace, the_pod(namespace))
    result = launch.done(LIMIT)
    assert (result.attempts, written(shared)) == (2, SHARDS)
    assert "was deleted" in caplog.text or "was disrupted (EvictionByEvictionAPI)" in caplog.text


@TAKES
def test_a_program_that_had_ended_before_has_succeeded(
    take: Take, start: Start, namespace: InCluster, pod: dict[str, Any], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its launcher is away meanwhile; a container beside it keeps the pod until its grace period is over."""
    component = script(f"echo once >> {shared}/runs", SHELL_IMAGE)
    wait = ["sh", "-c", f"trap '' TERM; until [ -e {shared}/go ]; do sleep 0.1; done"]
    mounts = pod["containers"][0]["volumeMounts"]
    beside = {"name": "beside", "image": SHELL_IMAGE, "command": wait, "volumeMounts": mounts}
    config = KubernetesPodPlatformConfig({**pod, "containers": [*pod["containers"], beside]})
    with dies_at("created", monkeypatch), pytest.raises(Killed):
        start(component, config).done()
    name = the_pod(namespace)
    ended = eventually(lambda: finished(namespace, name), within=LIMIT, every=0.2, what="the program has ended")
    eventually(lambda: datetime.now(UTC).replace(microsecond=0) > ended, what="a later second")
    take(namespace, name)
    assert namespace.get("pod", name)["metadata"]["deletionTimestamp"]
    assert start(component, config).done(LIMIT).attempts == 1
    assert (shared / "runs").read_text() == "once\n"
    (shared / "go").touch()


@TAKES
def test_a_program_whose_output_json_says_that_it_is_done_has_succeeded(
    take: Take, start: Start, namespace: InCluster
) -> None:
    launch = start(reporting(SHELL_IMAGE))
    eventually(lambda: launch.lines == ["ready"], within=LIMIT)
    take(namespace, the_pod(namespace))
    result = launch.done(LIMIT)
    assert (result.attempts, [artifact.uri for artifact in result.outputs["o"]]) == (1, ["/new"])


def test_exit_code_0_at_the_time_limit_of_a_pod_is_a_failure(start: Start, pod: dict[str, Any], shared: Path) -> None:
    launch = start(shards(shared, SHELL_IMAGE), KubernetesPodPlatformConfig({**pod, "activeDeadlineSeconds": 5}))
    with pytest.raises(PermanentFailure, match="DeadlineExceeded"):
        launch.done(LIMIT)
    assert "told to end" in launch.lines
    assert written(shared) == 5


@TAKES
def test_a_worker_of_a_step_that_is_a_tfjob_is_made_again(
    take: Take, start: Start, namespace: InCluster, pod: dict[str, Any], shared: Path
) -> None:
    """The operator judges it; the step is one launch."""
    launch = start(shards(shared, SHELL_IMAGE), TFJobPlatformConfig({"Worker": 1}, pod_spec=pod))
    eventually(lambda: "[worker-0] five are written" in launch.lines, within=LIMIT)
    take(namespace, the_pod(namespace))
    result = launch.done(LIMIT)
    assert (result.attempts, written(shared)) == (1, SHARDS)


def test_a_program_that_fails_its_liveness_probe_is_run_again(
    start: Start, pod: dict[str, Any], shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [main] = pod["containers"]
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    config = KubernetesPodPlatformConfig({**pod, "containers": [{**main, "livenessProbe": probe}]})
    text = f"""
        trap 'echo told to end; exit 0' TERM
        if [ -e {shared}/mark ]; then exit 0; fi
        touch {shared}/mark; while :; do sleep 0.05; done
    """
    assert start(script(text, SHELL_IMAGE), config).done(LIMIT).attempts == 2
    assert "was stopped by its kubelet (Killing)" in caplog.text


def test_a_program_that_its_kubelet_evicts_for_its_storage_is_run_again(
    start: Start, pod: dict[str, Any], shared: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its pod's phase is Succeeded then, mostly without reason and condition: only an event reports the eviction."""
    [main] = pod["containers"]
    mounts = [*main["volumeMounts"], {"name": "small", "mountPath": "/small"}]
    small = {"name": "small", "emptyDir": {"sizeLimit": "1Mi"}}
    config = KubernetesPodPlatformConfig(
        {**pod, "volumes": [*pod["volumes"], small], "containers": [{**main, "volumeMounts": mounts}]}
    )
    text = f"""
        trap 'echo told to end; exit 0' TERM
        if [ -e {shared}/mark ]; then exit 0; fi
        touch {shared}/mark; dd if=/dev/zero of=/small/file bs=1M count=8 2>/dev/null; while :; do sleep 0.05; done
    """
    assert start(script(text, SHELL_IMAGE), config).done(LIMIT).attempts == 2
    # On a busy node the status may have the eviction as well.
    assert re.search(r"was stopped by its kubelet|was ended by its node \(Evicted\)", caplog.text)
