from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi
from tests.unit.local.node.pods import container, manifest, python, view
from tfoperator.api.replicas.names import LABEL_REPLICA_TYPE
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES
from tfoperator.local.identity import identify
from tfoperator.local.node.agent import NodeAgent, Notices
from tfoperator.local.runtime.log_files import LogRequest
from tfoperator.local.runtime.process.runtime import ProcessRuntime
from tfoperator.local.runtime.protocol import LocalPod


class Bench:
    def __init__(self, root: Path) -> None:
        self.api = FakeApi()
        self.api.graceful = {"pods"}
        self.runtime = ProcessRuntime(records=root / "processes", work_dir=root)
        self.agent = NodeAgent(self.api, run_dir=root, runtime=self.runtime, node_name="here")
        self.records = root / "processes"

    def pod(self, name: str) -> dict[str, Any]:
        return next((p for p in self.api.objects(PODS) if p["metadata"]["name"] == name), {})

    def phase(self, name: str) -> str:
        return self.pod(name).get("status", {}).get("phase", "")

    def until(self, name: str, phase: str) -> dict[str, Any]:
        eventually(lambda: self.phase(name) == phase, what=f"{name} {phase}")
        return self.pod(name)

    def run(self, name: str, phase: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        """A new pod, once it has come to this phase."""
        self.api.put(PODS, manifest(name, *containers, **spec))
        return self.until(name, phase)

    def log(self, name: str) -> str:
        return b"".join(self.agent.logs.read(LogRequest("ns", name, ""))).decode()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    bench.agent.start()
    yield bench
    bench.agent.stop(grace=0)
    assert list(bench.records.glob("*")) == []


SLEEP = python("print('up', flush=True); import time; time.sleep(60)")


def test_a_pod_without_a_node_is_bound_and_run_and_one_of_another_node_is_left_alone(bench: Bench) -> None:
    bench.api.put(PODS, manifest("theirs", container(command=["true"]), nodeName="there"))
    bench.api.fail("patch", "pods", TransportError("connection reset"), times=2)  # its status is written again
    assert bench.run("a", "Succeeded", container(command=["true"]))["spec"]["nodeName"] == "here"
    bench.run("mine", "Succeeded", container(command=["true"]), nodeName="here")
    assert bench.phase("theirs") == ""


def test_config_maps_secrets_and_addresses_of_services_reach_the_container(bench: Bench) -> None:
    meta = {"namespace": "ns"}
    bench.api.put(CONFIG_MAPS, {"metadata": {"name": "c", **meta}, "data": {"A": "alpha"}, "binaryData": {"B": "Yg=="}})
    bench.api.put(SECRETS, {"metadata": {"name": "s", **meta}, "data": {"TOKEN": "czNjcmV0"}})
    spec = container(
        command=["sh", "-c", "echo $A $TOKEN; cat $TFOPERATOR_MOUNT_FILES/B"],
        workingDir="/no/such/folder",
        envFrom=[{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}],
        volumeMounts=[{"name": "files", "mountPath": "/no/such/place"}],
    )
    bench.run("a", "Succeeded", spec, volumes=[{"name": "files", "configMap": {"name": "c"}}])
    assert bench.log("a") == "alpha s3cret\nb"
    eventually(lambda: any(call.verb == "create" and call.resource == "events" for call in bench.api.calls))
    bench.api.put(SERVICES, {"metadata": {"name": "server", "namespace": "ns"}, "spec": {"ports": [{"port": 80}]}})
    env = [{"name": "PEER", "value": "server.ns.svc.cluster.local:80"}]
    bench.run("client", "Succeeded", container(command=["sh", "-c", "echo $PEER"], env=env))
    assert list(bench.runtime.network._ports) == [("ns", "server", 80)]
    assert bench.log("client") == f"127.0.0.1:{bench.runtime.network.port('ns', 'server', 80)}\n"
    bench.api.remove(SERVICES, "ns", "server")
    eventually(lambda: not bench.runtime.network._ports)


def test_a_pod_that_is_given_a_deadline_ends_and_stays(bench: Bench) -> None:
    bench.run("a", "Running", container(command=SLEEP), restartPolicy="Always")
    eventually(lambda: bench.log("a") == "up\n")
    bench.api.edit(PODS, "ns", "a", {"spec": {"activeDeadlineSeconds": 1}})
    status = bench.until("a", "Failed")["status"]
    assert status["reason"] == "DeadlineExceeded"
    assert bench.log("a") == "up\n"
    assert list(bench.records.glob("*.json")) == []


@pytest.mark.parametrize("vanishes", [False, True], ids=["deleted", "vanishes"])
def test_a_deleted_pod_is_stopped_and_then_removed_and_one_that_vanishes_is_killed(
    bench: Bench, vanishes: bool
) -> None:
    bench.run("a", "Running", container(command=SLEEP))
    group = int(next(bench.records.glob("*.json")).stem)
    (bench.api.remove if vanishes else bench.api.delete)(PODS, "ns", "a")
    eventually(lambda: not bench.pod("a"))
    assert vanishes or identify(group) is None
    eventually(lambda: identify(group) is None)


def test_a_new_pod_of_the_same_name_gets_a_log_of_its_own_and_is_removed_when_it_has_ended(bench: Bench) -> None:
    bench.run("a", "Succeeded", container(command=["echo", "first"]))
    assert bench.log("a") == "first\n"
    bench.api.remove(PODS, "ns", "a")
    bench.run("a", "Succeeded", container(command=["echo", "second"]))
    assert bench.log("a") == "second\n"
    bench.api.delete(PODS, "ns", "a")
    eventually(lambda: not bench.pod("a"))


def notices(*, enforces: bool = False, engine: bool = False, cpus: int = 2, problem: str = "") -> Notices:
    runtime: Any = SimpleNamespace(enforces_limits=enforces, may_have_gpus=engine)
    return Notices(runtime, cpus=cpus, gpu_problem=problem)


def pod(*, is_replica: bool = True, **limits: Any) -> LocalPod:
    body = manifest("p", container(resources={"limits": limits}))
    body["metadata"]["labels"] = {LABEL_REPLICA_TYPE: "worker"} if is_replica else {}
    return view(body)


def reasons(about: Notices, local_pod: LocalPod, running: int = 1) -> list[str]:
    return [reason for reason, _ in about.about(local_pod, lambda: running)]


NO_LIMITS = "limits of cpu and memory are not enforced"
TOO_MANY = "this machine has 2 CPUs, but the job has more replicas: they slow each other down"
NO_GPU = "no NVIDIA GPU can be used; containers that request nvidia.com/gpu run without a GPU of their own"


def test_limits_that_nobody_enforces_more_replicas_than_cpus_and_lacking_gpus_are_said_once() -> None:
    about, wants = notices(cpus=2, problem="no NVIDIA GPU can be used"), pod(**{"nvidia.com/gpu": 1})
    assert reasons(about, pod(), 2) == reasons(about, pod(is_replica=False), 9) == []
    for local_pod, running, reason, words in (
        (pod(memory="1Gi", cpu=1), 1, "LimitsNotEnforced", NO_LIMITS),
        (pod(), 3, "MoreReplicasThanCPUs", TOO_MANY),
        (wants, 1, "NoGPU", NO_GPU),
    ):
        [(reported, message)] = about.about(local_pod, lambda running=running: running)
        assert (reported, message.startswith(words)) == (reason, True), message
        assert reasons(about, local_pod, running) == []
    assert reasons(about, pod(memory="1Gi")) == reasons(notices(enforces=True), pod(memory="1Gi")) == []
    assert reasons(notices(), wants) == reasons(notices(problem="x", engine=True), wants) == []
