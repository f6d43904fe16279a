"""Clients that we did not write, unchanged, where pods run and the operator works: what they do has to come off.

`make controlplane` installs or builds them. The Python clients have their own scripts (`strangers/`), which run in the
interpreter that has them and end with an error when something is not as it should be.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Thread

import pytest
import yaml

from hack import gobuild, strangers
from tests.contract.conftest import ApiServer
from tests.contract.nodes import Node
from tests.contract.support import CONFIG_MAPS, NAMESPACES, Json, Space, config_map, decode, tfjob
from tests.support.eventually import eventually
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane

SCRIPTS = Path(__file__).parent / "strangers"
SECONDS = 150


@dataclass(frozen=True)
class Stranger:
    """A program that finds the API server as its users would have it find one."""

    kubeconfig: Path
    namespace: str

    @property
    def environment(self) -> dict[str, str]:
        home = self.kubeconfig.parent
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "KUBECONFIG": str(self.kubeconfig),
            "HOME": str(home),
            "HELM_CACHE_HOME": str(home / "helm"),
        }

    def __call__(self, *command: str | Path, **environment: str) -> str:
        """Run a command and return its output; if it fails, the test fails with all of its output."""
        done = subprocess.run(
            [str(part) for part in command],
            env={**self.environment, **environment},
            cwd=self.kubeconfig.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def inhabited(api_server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    """A namespace with a node and an operator of its own."""
    client = api_server.client
    made = client.create(NAMESPACES, "", {"metadata": {"generateName": "strangers-"}}, decode)
    name, folder = made["metadata"]["name"], tmp_path_factory.mktemp("strangers")
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = name
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    space = Space(client, api_server.http, kubeconfig, name)
    operator = OperatorProcess(kubeconfig, folder, "operator", f"--namespace={name}")
    with Node(api_server, space, folder), operator:
        operator.wait_ready(100)
        yield space
    client.delete(NAMESPACES, "", name)


@pytest.fixture
def stranger(inhabited: Space) -> Stranger:
    return Stranger(inhabited.kubeconfig, inhabited.namespace)


@pytest.mark.parametrize("release", ["that of the operator", "29, which TrainingClient brings"])
def test_the_official_python_client(stranger: Stranger, inhabited: Space, release: str) -> None:
    python = Path(sys.executable) if release.startswith("that") else strangers.find()

    output = stranger(python, SCRIPTS / "kubernetes_package.py", stranger.namespace)

    assert output.split() == ["documents", "objects", "deployments", "logs", "custom_objects", "dynamic_client"]
    for name in ("applied", "talks"):  # for the next release
        kind = "pod" if name == "talks" else "configmap"
        inhabited.kubectl("delete", kind, name, "--wait")
    inhabited.kubectl("delete", "secret", "s")


def test_training_client(stranger: Stranger) -> None:
    output = stranger(strangers.find(), SCRIPTS / "training_client.py", stranger.namespace)
    assert output.split()[-1] == "failures"


def test_kr8s(stranger: Stranger) -> None:
    output = stranger(strangers.find(), SCRIPTS / "kr8s_walk.py", stranger.namespace)
    assert output.split() == ["server", "pods", "jobs", "watches", "deployments"]


@contextmanager
def _lines_of(process: subprocess.Popen[str]) -> Iterator[Queue[str]]:
    """Yield the lines that a program prints; it is ended with the context."""
    lines: Queue[str] = Queue()
    assert process.stdout is not None
    reader = Thread(target=lambda: [lines.put(line) for line in process.stdout or ()], name="lines-of-a-stranger")
    reader.start()
    try:
        yield lines
    finally:
        process.kill()
        process.wait(60)
        reader.join(60)
        process.stdout.close()


@pytest.mark.parametrize("lists", ["lists", "streaming lists"])
def test_the_reflector_of_client_go(stranger: Stranger, space: Space, lists: str) -> None:
    space.create(CONFIG_MAPS, config_map("first"))
    feature = {"KUBE_FEATURE_WatchListClient": "true" if lists == "streaming lists" else "false"}
    command = [str(gobuild.find("reflector")), "core", "v1", "configmaps", space.namespace]
    with (
        subprocess.Popen(
            command, env={**stranger.environment, **feature}, stdout=subprocess.PIPE, text=True
        ) as process,
        _lines_of(process) as lines,
    ):
        names_by_verb: dict[str, set[str]] = {}

        def is_reported(verb: str, name: str) -> bool:
            while not lines.empty():
                line: Json = json.loads(lines.get())
                names_by_verb.setdefault(line["verb"], set()).update(line["names"])
            return name in names_by_verb.get(verb, ())

        eventually(lambda: is_reported("replace", "first"), within=60, what="the list")
        space.create(CONFIG_MAPS, config_map("second"))
        eventually(lambda: is_reported("add", "second"), within=60, what="an object that was made")
        space.patch(CONFIG_MAPS, "first", {"data": {"b": "c"}})
        eventually(lambda: is_reported("update", "first"), within=60, what="one that was changed")
        space.delete(CONFIG_MAPS, "second")
        eventually(lambda: is_reported("delete", "second"), within=60, what="one that was deleted")


def _manifest(folder: Path, body: Json) -> str:
    path = folder / f"{body['metadata']['name']}.yaml"
    path.write_text(yaml.safe_dump(body))
    return str(path)


def job(name: str, script: str, **worker: int) -> Json:
    """A TFJob whose workers run a shell script."""
    body = tfjob(name, **worker)
    for spec in body["spec"]["tfReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", script]
    return body


def test_kubectl_and_a_job(inhabited: Space, tmp_path: Path) -> None:
    kubectl = inhabited.kubectl
    script = "for i in 1 2 3; do echo line $i; sleep 0.2; done; exec sleep 1000"  # it is deleted before its end
    manifest = _manifest(tmp_path, job("typed", script, Worker=1))

    assert "created" in kubectl("create", "-f", manifest)
    kubectl("wait", "--for=condition=Running", "tfjob/typed", "--timeout=100s")
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", "tfjob/typed", "--timeout=100s")
    assert "typed-worker-0" in kubectl("get", "tfj,pods,services", "-o", "wide")
    assert "TFJobRunning" in kubectl("describe", "tfjob", "typed")
    described = kubectl("describe", "pod", "typed-worker-0")
    assert "Started:" in described
    assert "Jan 0001" not in described
    with kubectl.lines("logs", "-f", "typed-worker-0") as lines:
        assert [next(lines), next(lines), next(lines)] == ["line 1\n", "line 2\n", "line 3\n"]
    kubectl("label", "tfjob", "typed", "tier=one")
    kubectl("annotate", "tfjob", "typed", "note=two")
    kubectl("patch", "tfjob", "typed", "--type=merge", "-p", '{"spec":{"runPolicy":{"backoffLimit":3}}}')
    kubectl("scale", "tfjob", "typed", "--replicas=2")
    kubectl("wait", "--for=create", "pod/typed-worker-1", "--timeout=100s")
    shown = json.loads(kubectl("get", "tfjobs", "-l", "tier=one", "-o", "json"))["items"][0]
    assert shown["spec"]["runPolicy"]["backoffLimit"] == 3
    assert shown["metadata"]["annotations"]["note"] == "two"
    kubectl("delete", "-f", manifest, "--wait")
    kubectl("wait", "--for=delete", "pod/typed-worker-0", "--timeout=100s")


def test_kubectl_and_configurations(space: Space, tmp_path: Path) -> None:
    kubectl = space.kubectl
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    manifest = _manifest(tmp_path, body)

    assert kubectl.run("diff", "-f", manifest).returncode == 1
    assert "created" in kubectl("apply", "-f", manifest)
    assert "unchanged" in kubectl("apply", "-f", manifest)
    assert kubectl.run("diff", "-f", manifest).returncode == 0
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", manifest)
    _manifest(tmp_path, {**body, "data": {"b": "2"}})
    differs = kubectl.run("diff", "--server-side", "-f", manifest)
    assert (differs.returncode, '+  b: "2"' in differs.stdout) == (1, True), differs.stderr
    kubectl("apply", "--server-side", "-f", manifest)
    assert json.loads(kubectl("get", "configmap", "settings", "-o", "json"))["data"] == {"b": "2"}
    kubectl("patch", "configmap", "settings", "-p", '{"data":{"b":"3"}}')
    conflict = kubectl.run("apply", "--server-side", "-f", manifest)
    assert (conflict.returncode, "conflict" in conflict.stderr) == (1, True)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", manifest)
    assert json.loads(kubectl("get", "configmap", "settings", "-o", "json"))["data"] == {"b": "2"}


def test_kubectl_makes_things_edits_and_explains(space: Space) -> None:
    kubectl = space.kubectl

    kubectl(
        "create", "deployment", "web", "--image=example.invalid/x:1", "--replicas=0", "--port=80", "--", "sleep", "9"
    )
    made = json.loads(kubectl("get", "deployment", "web", "-o", "json"))
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert (made["spec"]["replicas"], container["command"]) == (0, ["sleep", "9"])
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    kubectl("scale", "deployment", "web", "--replicas=1")
    kubectl("set", "image", "deployment/web", "*=example.invalid/x:2")
    kubectl("set", "env", "deployment/web", "A=b")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    kubectl("create", "configmap", "settings", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "key", "--from-literal=a=b")
    kubectl("create", "serviceaccount", "somebody")
    kubectl("run", "alone", "--image=example.invalid/x:1", "--restart=Never", "--", "sleep", "9")
    edited = kubectl.run("edit", "configmap", "settings", editor="sed -i 's/a: b/a: edited/'")
    assert edited.returncode == 0, edited.stderr
    assert json.loads(kubectl("get", "configmap", "settings", "-o", "json"))["data"] == {"a": "edited"}
    assert "tfjobs" in kubectl("api-resources")
    assert "cleanPodPolicy" in kubectl("explain", "tfjob.spec.runPolicy")
    assert "imagePullPolicy" in kubectl("explain", "pod.spec.containers")
    assert "<[]Container> -required-" in kubectl("explain", "deployment.spec.template.spec")
    assert "targetPort\t<IntOrString>" in kubectl("explain", "service.spec.ports", "--recursive")
    assert "Server Version" in kubectl("version")


CHART = {"apiVersion": "v2", "name": "trains", "version": "1.0.0"}
TEMPLATE = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: charted, labels: {tier: "{{ .Values.tier }}"}}
spec:
  runPolicy: {suspend: true}
  tfReplicaSpecs:
    Worker:
      replicas: 1
      template: {spec: {containers: [{name: tensorflow, image: "example.invalid/x:1"}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: charted}
data: {tier: "{{ .Values.tier }}"}
"""


def test_helm(stranger: Stranger, space: Space, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(CHART))
    (tmp_path / "templates" / "job.yaml").write_text(TEMPLATE)
    helm = gobuild.find("helm")

    def tier() -> str:
        job = json.loads(space.kubectl("get", "tfjob", "charted", "-o", "json"))
        return str(job["metadata"]["labels"]["tier"])

    where = ("--namespace", space.namespace)
    stranger(helm, "install", "trains", tmp_path, "--set", "tier=one", *where)
    assert tier() == "one"
    stranger(helm, "upgrade", "trains", tmp_path, "--set", "tier=two", *where)
    assert tier() == "two"
    stranger(helm, "rollback", "trains", "1", *where)
    assert tier() == "one"
    assert "deployed" in stranger(helm, "status", "trains", *where)
    stranger(helm, "uninstall", "trains", "--wait", *where)
    assert space.kubectl("get", "tfjobs,configmaps", "-l", "app.kubernetes.io/managed-by=Helm", "-o", "name") == ""
