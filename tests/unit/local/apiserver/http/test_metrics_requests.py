from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.contract.support import Answer, Http, decode
from tests.support.jobs import write_kubeconfig
from tests.support.measured import Measured
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.local.gpus.manager import GpuUse

METRICS = "/apis/metrics.k8s.io/v1beta1"


@dataclass
class World:
    client: Client
    http: Http
    measured: Measured

    def pod(self, name: str, namespace: str = "default", **labels: str) -> None:
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        self.client.create(PODS, namespace, body, decode)

    def uses(self, pod: str, cpu: float, memory: int, *, namespace: str = "default", gpu: GpuUse | None = None) -> None:
        """The next container of the pod uses so much."""
        self.measured.uses(self.client, namespace, pod, cpu, memory, gpu)

    def get(self, path: str) -> Answer:
        return self.http("GET", METRICS + path)

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.get(path).body["items"]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    measured = Measured()
    with EmbeddedApiServer(usage=measured.read, custom_resources=[]) as server:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.kubeconfig(), "default")
        with Client(load_config(str(kubeconfig))) as client:
            yield World(client, Http(kubeconfig), measured)


def test_what_a_pod_uses_as_metrics_server_says_it(world: World) -> None:
    world.pod("a", app="x")
    world.uses("a", 0.25, 5 << 20)
    world.uses("a", 1.0, 1 << 30, gpu=GpuUse(2, 1.5, 4 << 30))
    [answer] = world.get("/namespaces/default/pods").body["items"]
    assert answer == world.get("/namespaces/default/pods/a").body
    named = {"name": "a", "namespace": "default", "labels": {"app": "x"}}
    assert answer["metadata"] == {**named, "creationTimestamp": "2026-01-01T12:00:00Z"}
    assert (answer["timestamp"], answer["window"]) == ("2026-01-01T12:00:00Z", "2.500s")
    gpus = {"nvidia.com/gpu": "1500m", "nvidia.com/gpu-memory": "4194304Ki"}
    assert answer["containers"] == [
        {"name": "c0", "usage": {"cpu": "250000000n", "memory": "5120Ki"}},
        {"name": "c1", "usage": {"cpu": "1000000000n", "memory": "1048576Ki"} | gpus},
    ]


def test_pods_are_selected_as_pods_are(world: World) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("idle", "x")):
        world.pod(name, app=app)
    world.pod("c", "kube-system", app="x")
    for name, namespace in (("a", "default"), ("b", "default"), ("c", "kube-system")):
        world.uses(name, 1.0, 1, namespace=namespace)
    assert world.names("/namespaces/default/pods") == ["a", "b"]
    assert sorted(world.names("/pods")) == ["a", "b", "c"]
    assert sorted(world.names("/pods?labelSelector=app%3Dx")) == ["a", "c"]
    assert world.names("/namespaces/default/pods?fieldSelector=metadata.name%3Db") == ["b"]
    assert world.get("/pods?labelSelector=a%20b").code == 400
    world.client.delete(PODS, "default", "a", grace_period_seconds=0)
    world.pod("a", app="x")
    assert world.names("/pods?labelSelector=app%3Dx") == ["c"], "a successor doesn't inherit the use"


def test_a_node_uses_what_the_machine_uses_but_a_stranger_is_told_nothing(world: World) -> None:
    assert world.http("GET", METRICS + "/pods", token="wrong").code == 401
    assert world.measured.asked == 0
    world.measured.known = False
    assert world.get("/pods").code == 503, "before anything was measured"
    world.measured.known = True
    world.http("POST", "/api/v1/nodes", {"metadata": {"name": "n", "labels": {"disk": "fast"}}})
    node = world.get("/nodes/n").body
    assert (node["kind"], node["usage"]) == ("NodeMetrics", {"cpu": "1500000000n", "memory": "3145728Ki"})
    assert world.names("/nodes?labelSelector=disk%3Dfast") == ["n"]
    assert world.names("/nodes?labelSelector=disk%3Dslow") == []


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/namespaces/default/pods/gone", 404),
        ("GET", "/nodes/gone", 404),
        ("GET", "/pods/a", 404),
        ("GET", "/namespaces/default/nodes", 404),
        ("GET", "/things", 404),
        ("GET", "/namespaces/default/pods/a/log", 404),
        ("GET", "/pods?watch=true", 405),
        ("POST", "/namespaces/default/pods", 405),
        ("DELETE", "/nodes/n", 405),
    ],
)
def test_what_there_is_not(world: World, method: str, path: str, code: int) -> None:
    answer = world.http(method, METRICS + path, {} if method == "POST" else None)
    assert (answer.code, answer.body["kind"]) == (code, "Status")


def test_discovery_knows_it_only_where_somebody_measures(world: World, tmp_path: Path) -> None:
    def groups(http: Http) -> list[str]:
        return [group["name"] for group in http("GET", "/apis").body["groups"]]

    served = world.http("GET", METRICS).body["resources"]
    assert {resource["name"]: resource["verbs"] for resource in served} == {
        "pods": ["get", "list"],
        "nodes": ["get", "list"],
    }
    assert "metrics.k8s.io" in groups(world.http)
    with EmbeddedApiServer(custom_resources=[]) as server:
        http = Http(write_kubeconfig(tmp_path / "other", server.kubeconfig(), "default"))
        assert "metrics.k8s.io" not in groups(http)
        assert http("GET", METRICS + "/pods").code == 404
