"""Pods as Docker containers, on a real engine: one control plane, whose pods tell how it went."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from hack.docker_engine import BUSYBOX_IMAGE, DockerEngine
from tests.support.cluster import decode
from tests.support.docker_engine import traces
from tests.support.eventually import eventually
from tests.support.threads import no_threads_left
from tfoperator.kube.errors import NotFoundError
from tfoperator.kube.resources import PODS, SERVICES, Resource
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.docker_runtime import remove_leftovers
from tfoperator.local.docker_runtime.leftovers import OWNER_LABEL, new_run
from tfoperator.local.runtimes import RuntimeName

ENTRYPOINT_IMAGE = "local/entrypoint:1"
LIMIT = 30.0

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
SECRETS = Resource("", "v1", "Secret", "secrets")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def engine(docker_engine: DockerEngine) -> Iterator[Any]:
    say = b"#!/bin/sh\necho entry $* in $PWD as $(id -u), $GREETING\n"
    docker_engine.load(
        ENTRYPOINT_IMAGE, {"say.sh": say}, entrypoint=["/say.sh"], command=["of the image"], workdir="/tmp", user="1000"
    )
    client = docker.DockerClient(base_url=docker_engine.url)
    yield client
    client.close()


class Pods:
    """Pods of one control plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.client = plane.client
        self._run_dir = plane.run_dir

    def create(self, name: str, *containers: Json, labels: Json | None = None, **spec: Any) -> None:
        """Create a pod that is not started again."""
        meta = {"name": name, "labels": labels or {}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": containers, **spec},
        }
        self.client.create(PODS, "default", body, decode)

    def add(self, resource: Resource, name: str, **fields: Any) -> None:
        """Create any other object."""
        body = {"apiVersion": resource.version, "kind": resource.kind, "metadata": {"name": name}, **fields}
        self.client.create(resource, "default", body, decode)

    def status(self, name: str) -> Json:
        """A pod's status."""
        found: Json = self.client.get(PODS, "default", name, decode)
        return dict(found.get("status") or {})

    def until(self, name: str, condition: Callable[[Json], object], what: str) -> Json:
        """A pod's status as soon as it meets a condition."""
        last: list[Json] = []

        def met() -> bool:
            last[:] = [self.status(name)]
            assert condition(last[0]), f"{last[0]}\n{self.log(name)}"
            return True

        eventually(met, within=LIMIT, what=f"pod {name}: {what}")
        return last[0]

    def end(self, name: str) -> Json:
        """A pod's status when it is over."""
        return self.until(name, lambda status: status.get("phase") in ("Succeeded", "Failed"), "its end")

    def log(self, name: str, container: str = "main", attempt: int = 0) -> str:
        """What an attempt has written; "" before it began."""
        path = self._run_dir / "logs/default" / name / container / f"{attempt}.log"
        return path.read_text() if path.exists() else ""

    def delete(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        self.client.delete(PODS, "default", name)

        def gone() -> bool:
            try:
                self.status(name)
            except NotFoundError:
                return True
            return False

        eventually(gone, within=LIMIT, what=f"pod {name} is gone")


@pytest.fixture(scope="module")
def pods(engine: Any, docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with pytest.MonkeyPatch.context() as patch, no_threads_left():
        patch.setenv("DOCKER_HOST", docker_engine.url)
        plane = ControlPlane(tmp_path_factory.mktemp("plane"), runtime=RuntimeName.DOCKER)
        plane.start()
        yield Pods(plane)
        plane.stop()
        assert traces(engine) == []


def shell(script: str, name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": BUSYBOX_IMAGE, "command": ["sh", "-ec", script], **fields}


def ending(status: Json, container: int = 0) -> tuple[int, str]:
    """A container's exit code, and the reason of its end."""
    terminated = status["containerStatuses"][container]["state"]["terminated"]
    return terminated["exitCode"], terminated["reason"]


def test_a_service_is_a_name_for_the_pods_that_it_selects(pods: Pods) -> None:
    pods.add(SERVICES, "server", spec={"clusterIP": "None", "selector": {"role": "server"}, "ports": [{"port": 2222}]})
    pods.create("server-0", shell("while :; do echo weights | nc -l -p 2222; done"), labels={"role": "server"})
    names = ("server", "server.default", "server.default.svc", "server.default.svc.cluster.local")
    ask = "; ".join(f"until nc {name} 2222 2>/dev/null </dev/null; do sleep 0.1; done" for name in names)
    pods.create("client", shell(f"{ask}; hostname"))
    assert pods.end("client")["phase"] == "Succeeded", pods.log("client")
    assert pods.log("client") == "weights\n" * len(names) + "client\n"
    address = pods.status("server-0")["podIP"]
    assert address.startswith("172.")
    assert pods.status("client")["podIP"] != address
    pods.delete("server-0")


def test_the_image_says_what_the_manifest_does_not(pods: Pods) -> None:
    env = [{"name": "GREETING", "value": "hello from $(IP)"}]
    env.insert(0, {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})  # type: ignore[dict-item]
    pods.create("plain", {"name": "main", "image": ENTRYPOINT_IMAGE})
    more = {"args": ["$(IP)", "$$x"], "env": env, "workingDir": "/bin", "securityContext": {"runAsUser": 1234}}
    pods.create("told", {"name": "main", "image": ENTRYPOINT_IMAGE, **more})
    assert ending(pods.end("plain")) == (0, "Completed")
    assert pods.log("plain") == "entry of the image in /tmp as 1000,\n"
    address = pods.end("told")["podIP"]
    assert pods.log("told") == f"entry {address} $x in /bin as 1234, hello from {address}\n"


def test_volumes_are_mounted_for_whoever_the_container_runs_as(pods: Pods, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/here").write_text("of this machine\n")
    pods.add(CONFIG_MAPS, "settings", data={"a.txt": "alpha"})
    pods.add(SECRETS, "password", stringData={"word": "s3cret"})
    volumes = [
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "password"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "host", "hostPath": {"path": str(tmp_path)}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    mounts = [
        {"name": "config", "mountPath": "/etc/settings"},
        {"name": "config", "mountPath": "/one/file", "subPath": "a.txt"},
        {"name": "secret", "mountPath": "/secret"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "host", "mountPath": "/host", "readOnly": True, "subPath": "sub"},
        {"name": "claim", "mountPath": "/claim"},
    ]
    user = {"runAsUser": 4321, "runAsGroup": 4321}
    init = shell("echo prepared > /scratch/by-init", "init", volumeMounts=mounts)
    read = shell("cat /etc/settings/a.txt /one/file /secret/word /scratch/by-init /host/here", volumeMounts=mounts)
    read["command"][2] += "; echo x > /claim/mine; echo y > /scratch/mine; ! echo > /host/x; ! echo > /etc/settings/x"
    read["command"][2] += "; echo $(id -u) $(id -g)"
    pods.create("mounts", read, initContainers=[init], volumes=volumes, securityContext=user)
    assert pods.end("mounts")["phase"] == "Succeeded", pods.log("mounts")
    lines = pods.log("mounts").splitlines()  # of two streams, in any order
    assert {"alphaalphas3cretprepared", "of this machine", "4321 4321"} < set(lines)
    assert pods.log("mounts").count("Read-only file system") == 2
    seen = shell("cat /claim/mine", volumeMounts=[mounts[-1]])
    pods.create("later", seen, volumes=volumes)
    assert pods.end("later")["phase"] == "Succeeded"
    assert pods.log("later") == "x\n"


def test_how_a_container_has_ended_is_told(pods: Pods) -> None:
    eat = "x=a; while :; do x=$x$x; done"
    little = {"limits": {"memory": "32Mi", "cpu": "64"}}
    pods.create("three", shell("echo bye; exit 3"))
    pods.create("eater", shell(eat, resources=little))
    pods.create("nothing", {"name": "main", "image": BUSYBOX_IMAGE, "command": ["/no/such/program"]})
    pods.create("nowhere", shell("true", workingDir="/dev/null/x"))
    assert ending(pods.end("three")) == (3, "Error")
    assert pods.log("three") == "bye\n"
    assert ending(pods.end("eater")) == (137, "OOMKilled")
    assert ending(pods.end("nothing"))[0] == 127
    assert "/no/such/program" in pods.log("nothing")
    code, reason = ending(pods.end("nowhere"))
    assert (code, reason) == (126, "StartError")
    assert "can't start container 'main'" in pods.log("nowhere")


def test_a_container_is_started_again_in_its_pod_and_each_attempt_has_a_log(pods: Pods) -> None:
    volumes = {"volumes": [{"name": "count", "emptyDir": {}}]}
    script = "n=$(cat /count/n || echo 0); echo attempt $n; echo $((n + 1)) > /count/n; exit $((1 - n))"
    again = shell(script, volumeMounts=[{"name": "count", "mountPath": "/count"}])
    stays = shell("exec sleep 600", "other")
    pods.create("again", again, stays, restartPolicy="OnFailure", **volumes)

    def is_done(status: Json) -> bool:
        first, *_ = status.get("containerStatuses") or [{}]
        return bool(first.get("state", {}).get("terminated", {}).get("exitCode") == 0)

    status = pods.until("again", is_done, "the second attempt's success")
    first, second = status["containerStatuses"]
    assert (first["restartCount"], second["restartCount"]) == (1, 0)
    assert first["lastState"]["terminated"]["exitCode"] == 1
    assert "attempt 0" in pods.log("again")
    assert "attempt 1" in pods.log("again", attempt=1)
    pods.delete("again")


def test_a_pod_whose_sandbox_was_lost_gets_another_with_the_next_start(pods: Pods, engine: Any) -> None:
    pods.create("robbed", shell("echo started; exec sleep 600"), restartPolicy="Always")
    eventually(lambda: pods.log("robbed") == "started\n", within=LIMIT)
    made = {
        one.name.rpartition("-")[2]: one
        for one in engine.containers.list(ignore_removed=True)
        if "-robbed-" in one.name
    }
    sandbox = made.pop("sandbox")
    sandbox.kill()
    for container in made.values():
        container.kill()
    eventually(lambda: pods.log("robbed", attempt=1) == "started\n", within=LIMIT)
    [status] = pods.until("robbed", lambda s: s["phase"] == "Running", "it runs again")["containerStatuses"]
    assert (status["restartCount"], status["state"].get("terminated")) == (1, None)
    pods.delete("robbed")


def test_containers_of_a_pod_share_its_network_and_end_by_the_stop_signal(pods: Pods) -> None:
    say = "trap 'echo asked to stop; exit 0' TERM; while :; do echo here | nc -l -p 80 & wait $!; done"
    ask = "until nc 127.0.0.1 80 2>/dev/null </dev/null; do sleep 0.1; done; exec sleep 600"
    pods.create("pair", shell(say), shell(ask, "other"), terminationGracePeriodSeconds=20)
    eventually(lambda: pods.log("pair", "other") == "here\n", within=LIMIT)
    pods.delete("pair")  # the sleep has no handler; it ends at once all the same
    assert pods.log("pair") == "asked to stop\n"


def test_an_image_that_can_not_be_had_is_a_reason_to_wait(pods: Pods, engine: Any) -> None:
    def waiting(status: Json) -> str:
        [container] = status.get("containerStatuses") or [{}]
        return str(container.get("state", {}).get("waiting", {}).get("reason"))

    pods.create("never", shell("true", image="local/none:1", imagePullPolicy="Never"))
    pods.create("absent", shell("true", image="127.0.0.1:1/none:1"))
    engine.images.get(BUSYBOX_IMAGE).tag("127.0.0.1:1/built", "1")
    engine.images.get(BUSYBOX_IMAGE).tag("127.0.0.1:1/built", "latest")
    pods.create("built", shell("echo mine", image="127.0.0.1:1/built"))
    pods.create("always", shell("true", image="127.0.0.1:1/built:1", imagePullPolicy="Always"))
    pods.until("never", lambda s: waiting(s) == "ErrImageNeverPull", "no pull")
    for name in ("absent", "always"):
        pods.until(name, lambda s: waiting(s) in ("ErrImagePull", "ImagePullBackOff"), "a failed pull")
        assert pods.status(name)["phase"] == "Pending"
    assert pods.end("built")["phase"] == "Succeeded", "built here, it has never been elsewhere"
    for name in ("never", "absent", "always"):
        pods.delete(name)


def test_what_a_dead_run_has_left_is_removed_and_what_a_living_one_has_is_not(engine: Any) -> None:
    mine = new_run()
    me = f"|{os.getpid()}|"
    dead = {**mine, OWNER_LABEL: mine[OWNER_LABEL].replace(me, me + "1")}
    elsewhere = {**dead, OWNER_LABEL: "elsewhere" + dead[OWNER_LABEL]}
    made = [engine.containers.create(BUSYBOX_IMAGE, labels=labels) for labels in (mine, dead, elsewhere)]
    networks = [engine.networks.create(f"left-{n}", labels=labels) for n, labels in enumerate((mine, dead))]
    try:
        assert remove_leftovers(engine.api) == [made[1].name]
        assert {c.id for c in engine.containers.list(all=True, ignore_removed=True)} >= {made[0].id, made[2].id}
        names = {network.name for network in engine.networks.list()}
        assert ("left-0" in names, "left-1" in names) == (True, False)
    finally:
        made[0].remove()
        made[2].remove()
        networks[0].remove()
