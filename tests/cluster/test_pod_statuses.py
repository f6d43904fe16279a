"""The status of a pod in each phase, as the node agent of the laptop reports it, beside a kubelet's of the same pod."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hack.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.in_cluster import SHELL_IMAGE, InCluster
from tests.support.jobs import write_kubeconfig
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.local.node.agent import NodeAgent
from tfoperator.local.runtime.process.runtime import ProcessRuntime

Json = dict[str, Any]
Get = Callable[[str], Json]
Milestone = Callable[[Json], bool]
NAMESPACE = "statuses"


def container(script: str, name: str = "main", **fields: Any) -> Json:
    command = ["sh", "-c", script]
    return {"name": name, "image": SHELL_IMAGE, "imagePullPolicy": "Never", "command": command, **fields}


def phase(wanted: str) -> Milestone:
    """The pod is in this phase, and its sandbox is gone if it has ended."""

    def reached(status: Json) -> bool:
        conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
        over = wanted in ("Succeeded", "Failed")
        return status["phase"] == wanted and (not over or conditions["PodReadyToStartContainers"] == "False")

    return reached


def ready(status: Json) -> bool:
    return {"type": "Ready", "status": "True"}.items() <= _of_type(status, "Ready").items()


def waits(reason: str, of: str = "containerStatuses") -> Milestone:
    def reached(status: Json) -> bool:
        states = [container_status["state"] for container_status in status.get(of) or ()]
        return any(state.get("waiting", {}).get("reason") == reason for state in states)

    return reached


def initialising(status: Json) -> bool:
    return any("running" in container_status["state"] for container_status in status.get("initContainerStatuses") or ())


def _of_type(status: Json, kind: str) -> Json:
    return next((condition for condition in status.get("conditions") or () if condition["type"] == kind), {})


FOR_EVER = "trap 'exit 0' TERM; sleep 100000 & wait"
MISSING = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "missing", "key": "a"}}}]}
MOUNTED = {"volumeMounts": [{"name": "data", "mountPath": "/tmp/data"},
                            {"name": "data", "mountPath": "/tmp/seen", "readOnly": True}]}  # fmt: skip
SIZED = {"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}}
SIDECAR = container(FOR_EVER, "helper", restartPolicy="Always")

CASES: dict[str, tuple[Json, Milestone]] = {
    "waiting": ({"containers": [container("exit 0", **MISSING)]}, waits("CreateContainerConfigError")),
    "running": ({"containers": [container(FOR_EVER, "b"), container(FOR_EVER, "a")]}, ready),
    "sized": (
        {"containers": [container(FOR_EVER, **SIZED, **MOUNTED)], "volumes": [{"name": "data", "emptyDir": {}}]},
        ready,
    ),
    "completed": ({"containers": [container("exit 0")]}, phase("Succeeded")),
    "failed": ({"containers": [container("exit 3")]}, phase("Failed")),
    "restarting": (
        {"containers": [container("sleep 0.3; exit 1")], "restartPolicy": "OnFailure"},
        waits("CrashLoopBackOff"),
    ),
    "expired": ({"containers": [container(FOR_EVER)], "activeDeadlineSeconds": 3}, phase("Failed")),
    "initialising": ({"initContainers": [container(FOR_EVER, "first")], "containers": [container("exit 0")]},
                     initialising),
    "initialised": ({"initContainers": [container("exit 0", "first")], "containers": [container(FOR_EVER)]}, ready),
    "init-failed": (
        {"initContainers": [container("exit 4", "first")], "containers": [container("exit 0")]},
        phase("Failed"),
    ),
    "init-restarting": (
        {"initContainers": [container("sleep 0.3; exit 4", "first")], "containers": [container("exit 0")],
         "restartPolicy": "OnFailure"},
        waits("CrashLoopBackOff", "initContainerStatuses"),
    ),
    "sidecar": ({"initContainers": [SIDECAR], "containers": [container(FOR_EVER)]}, ready),
    "sidecar-completed": ({"initContainers": [SIDECAR], "containers": [container("exit 0")]}, phase("Succeeded")),
}  # fmt: skip


WITHIN = 300.0
"""Seconds. A kubelet shows the end of an init container until it looks at the pod again, after 60 to 90 s, and shows
CrashLoopBackOff only then. Before the fourth restart, which waits 80 s, it usually starts the container first.
"""


def manifest(name: str) -> Json:
    common = {"restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 5}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**common, **CASES[name][0]}}


def reached(get: Get, name: str) -> Json:
    """The status of a pod at the milestone of its case."""

    def far_enough() -> Json:
        status: Json = get(name)["status"]
        assert CASES[name][1](status), status
        return status

    return eventually(far_enough, within=WITHIN, every=0.2, what=f"the status of {name}")


OF_CONTROL_GROUPS = ("resources", "allocatedResources")
"""Of the whole pod: a kubelet reads them from the pod's control group, which pods of processes don't have."""
TIMES = {"startTime", "startedAt", "finishedAt", "lastTransitionTime"}
ADDRESSES = {"ip", "podIP", "hostIP"}
TEXTS = {"image", "uid", "gid"}
"""Facts of the node or of the runtime: that the field is there, and its kind, is what counts."""


def shape(value: Any, name: str = "") -> Any:
    """A status without the values that differ from pod to pod and from node to node, and without nulls."""
    if name in TIMES | ADDRESSES | TEXTS:
        return f"<{name}>"
    if name == "containerID":
        kind, _, identifier = value.partition("://")
        assert kind
        assert len(identifier) == 64, value
        return "<containerID>"
    if name == "imageID":
        return "<imageID>"  # a process has no image: there it is empty
    if name == "restartCount":
        return value > 0
    if isinstance(value, dict):
        left = {key: of_key for key, of_key in value.items() if of_key is not None and key != "supplementalGroups"}
        shaped = {key: shape(of_key, key) for key, of_key in left.items()}
        if shaped.get("reason") in ("CrashLoopBackOff", "CreateContainerConfigError"):
            shaped.pop("message", None)  # the words of the runtime
        return shaped
    if isinstance(value, list):
        return [shape(item) for item in sorted(value, key=lambda item: item.get("type", ""))]
    return value


@pytest.fixture(scope="module")
def kubelet(node_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    """Read a pod that a kubelet runs."""
    cluster = InCluster(node_cluster, NAMESPACE, tmp_path_factory.mktemp("kubelet"))
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.apply(*(manifest(name) for name in CASES))
    yield lambda name: cluster.get("pod", name)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    """Read a pod that the node agent runs."""
    folder = tmp_path_factory.mktemp("laptop")
    with EmbeddedApiServer() as server:
        kubeconfig = write_kubeconfig(folder / "kubeconfig", server.kubeconfig(), "default")
        with Client(load_config(str(kubeconfig))) as client:
            runtime = ProcessRuntime(records=folder / "records", work_dir=folder)
            agent = NodeAgent(client, run_dir=folder, runtime=runtime, node_name="laptop")
            agent.start()
            try:
                for name in CASES:
                    client.create(PODS, "default", manifest(name), json.loads)
                yield lambda name: dict(client.get(PODS, "default", name, json.loads))
            finally:
                agent.stop(grace=0.0)


@pytest.mark.parametrize("name", CASES)
def test_the_node_agent_reports_what_a_kubelet_reports(name: str, kubelet: Get, laptop: Get) -> None:
    theirs, ours = shape(reached(kubelet, name)), shape(reached(laptop, name))
    for field in OF_CONTROL_GROUPS:
        theirs.pop(field, None)
    assert ours == theirs
