"""Pods as Docker containers, on a real engine: one control plane, whose pods show how it went."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from hack.docker_engine import BUSYBOX_IMAGE, DockerEngine
from tests.support import manifests
from tests.support.cluster import decode, find
from tests.support.docker_engine import traces
from tests.support.eventually import eventually, eventually_holds
from tests.support.threads import no_threads_left
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.runtime.docker.leftovers import OWNER_LABEL, new_run, remove_leftovers
from tfoperator.local.runtime.selection import RuntimeName, RuntimeOptions

ENTRYPOINT_IMAGE = "local/entrypoint:1"
LIMIT = 90.0

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
        self.meter = plane.meter
        self.peaks = plane.runtime.peaks
        self._run_dir = plane.run_dir

    def create(self, name: str, *containers: Json, labels: Json | None = None, **spec: Any) -> None:
        """Create a pod that is not started again."""
        whole = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": containers, **spec}
        self.client.create(PODS, "default", manifests.pod(name, labels, **whole), decode)

    def add(self, resource: Resource, name: str, **fields: Any) -> None:
        """Create any other object."""
        body = {"apiVersion": resource.version, "kind": resource.kind, "metadata": {"name": name}, **fields}
        self.client.create(resource, "default", body, decode)

    def status(self, name: str) -> Json:
        """A pod's status."""
        pod: Json = self.client.get(PODS, "default", name, decode)
        return dict(pod.get("status") or {})

    def until(self, name: str, condition: Callable[[Json], object], what: str) -> Json:
        """A pod's status as soon as it meets a condition."""
        last: list[Json] = []

        def met() -> None:
            last[:] = [self.status(name)]
            assert condition(last[0]), f"{last[0]}\n{self.log(name)}"

        eventually_holds(met, within=LIMIT, what=f"pod {name}: {what}")
        return last[0]

    def end(self, name: str) -> Json:
        """A pod's status when it is over."""
        return self.until(name, lambda status: status.get("phase") in ("Succeeded", "Failed"), "its end")

    def log(self, name: str, container: str = "main", attempt: int = 0) -> str:
        """Return the log of an attempt; "" before it began."""
        path = self._run_dir / "logs/default" / name / container / f"{attempt}.log"
        return path.read_text() if path.exists() else ""

    def delete(self, name: str) -> None:
        """Delete a pod, and wait until it is gone."""
        self.client.delete(PODS, "default", name)
        eventually(lambda: not find(self.client, PODS, "default", name), within=LIMIT, what=f"pod {name} is gone")


@contextmanager
def running(folder: Path, docker_engine: DockerEngine, *, allow_privileged: bool = False) -> Iterator[Pods]:
    with pytest.MonkeyPatch.context() as patch, no_threads_left():
        patch.setenv("DOCKER_HOST", docker_engine.url)
        plane = ControlPlane(folder, pods=RuntimeOptions(RuntimeName.DOCKER, allow_privileged=allow_privileged))
        plane.start()
        try:
            yield Pods(plane)
        finally:
            plane.stop()


@pytest.fixture(scope="module")
def pods(engine: Any, docker_engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with running(tmp_path_factory.mktemp("plane"), docker_engine) as started:
        yield started
    assert traces(engine) == []


def shell(script: str, name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": BUSYBOX_IMAGE, "command": ["sh", "-ec", script], **fields}


SWAP = """while :; do
  mv -T t a && { until mv -T l t; do rmdir t; done; mv -T t l; until mv -T a t; do rmdir t; done; }
done 2>/dev/null"""
"""Puts the link `l` in the place of the folder `t`, and back, for ever; a folder that was made meanwhile goes."""


def containers_of(engine: Any, pod: str) -> dict[str, Any]:
    """Return the engine's containers of a pod, by the end of their name: `sandbox`, or the number of an attempt."""
    every = engine.containers.list(ignore_removed=True)
    return {container.name.rpartition("-")[2]: container for container in every if f"-{pod}-" in container.name}


def ending(status: Json, container: int = 0) -> tuple[int, str]:
    """A container's exit code, and the reason of its end."""
    terminated = status["containerStatuses"][container]["state"]["terminated"]
    return terminated["exitCode"], terminated["reason"]


def test_a_service_is_a_name_for_the_pods_that_it_selects(pods: Pods) -> None:
    pods.add(SERVICES, "server", spec={"clusterIP": "None", "selector": {"role": "server"}, "ports": [{"port": 2222}]})
    serve = shell("while :; do echo weights | nc -l -p 2222; done")
    pods.create("server-0", serve, labels={"role": "server"}, hostname="first", subdomain="server")
    suffixes = ("", ".default", ".default.svc", ".default.svc.cluster.local")
    names = [name + suffix for name in ("server", "first.server") for suffix in suffixes]
    # A connection that waited when the server began again is reset: asked again, too.
    ask = "; ".join(f"until nc {name} 2222 2>/dev/null </dev/null | grep weights; do sleep 0.1; done" for name in names)
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
    pods.create("untold", {"name": "main", "image": ENTRYPOINT_IMAGE})
    more = {"args": ["$(IP)", "$$x"], "env": env, "workingDir": "/bin", "securityContext": {"runAsUser": 1234}}
    pods.create("told", {"name": "main", "image": ENTRYPOINT_IMAGE, **more})
    assert ending(pods.end("untold")) == (0, "Completed")
    assert pods.log("untold") == "entry of the image in /tmp as 1000,\n"
    address = pods.end("told")["podIP"]
    assert pods.log("told") == f"entry {address} $x in /bin as 1234, hello from {address}\n"


def test_volumes_are_mounted_for_whoever_the_container_runs_as(pods: Pods) -> None:
    pods.add(CONFIG_MAPS, "settings", data={"a.txt": "alpha"})
    pods.add(SECRETS, "password", stringData={"word": "s3cret"})
    volumes = [
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "secret", "secret": {"secretName": "password"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    mounts = [
        {"name": "config", "mountPath": "/etc/settings"},
        {"name": "config", "mountPath": "/one/file", "subPath": "a.txt"},
        {"name": "secret", "mountPath": "/secret"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "claim", "mountPath": "/claim"},
        {"name": "claim", "mountPath": "/part", "subPath": "deep/part"},
    ]
    user = {"runAsUser": 4321, "runAsGroup": 4321}
    init = shell("echo prepared > /scratch/by-init", "init", volumeMounts=mounts)
    read = shell("cat /etc/settings/a.txt /one/file /secret/word /scratch/by-init; echo", volumeMounts=mounts)
    read["command"][2] += "; echo x > /claim/mine; echo y > /scratch/mine; ! echo > /etc/settings/x"
    read["command"][2] += "; echo $(id -u) $(id -g); echo z > /part/mine"
    pods.create("mounts", read, initContainers=[init], volumes=volumes, securityContext=user)
    assert pods.end("mounts")["phase"] == "Succeeded", pods.log("mounts")
    lines = pods.log("mounts").splitlines()  # of two streams, in any order
    assert {"alphaalphas3cretprepared", "4321 4321"} < set(lines)
    assert pods.log("mounts").count("Read-only file system") == 1
    reader = shell("cat /claim/mine /claim/deep/part/mine", volumeMounts=[mounts[-2]])
    pods.create("later", reader, volumes=volumes)
    assert pods.end("later")["phase"] == "Succeeded"
    assert pods.log("later") == "x\nz\n"


def test_power_over_the_machine_is_given_only_to_who_asks_for_it(
    pods: Pods, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    (tmp_path / "host/sub").mkdir(parents=True)
    (tmp_path / "host/sub/here").write_text("of this machine\n")
    # One stream only: two of them reach the log in no order.
    look = "exec 2>&1; cat /host/here; ! echo > /host/x; grep CapEff /proc/self/status; hostname"
    mount = {"name": "host", "mountPath": "/host", "readOnly": True, "subPath": "sub"}
    # Not `privileged`: where tests run, not even root may have all capabilities.
    context = {"capabilities": {"add": ["SYS_ADMIN"]}}
    powerful = shell(look, securityContext=context, volumeMounts=[mount])
    volumes = [{"name": "host", "hostPath": {"path": str(tmp_path / "host")}}]
    with running(tmp_path / "trusting", docker_engine, allow_privileged=True) as trusting:
        for some in (pods, trusting):
            some.create("powerful", powerful, volumes=volumes, hostNetwork=True)
        assert trusting.end("powerful")["phase"] == "Succeeded", trusting.log("powerful")
        assert ending(pods.end("powerful")) == (126, "StartError")
        words = trusting.log("powerful").split()
    assert " ".join(words[:3]) == "of this machine"
    effective = int(words[words.index("CapEff:") + 1], 16)
    assert effective >> 21 & 1, "CAP_SYS_ADMIN"
    assert "powerful" not in words, "the name is the machine's"
    for field in ("securityContext.capabilities.add SYS_ADMIN", "hostNetwork", "hostPath", "--allow-privileged"):
        assert field in pods.log("powerful")


def test_a_container_gains_no_rights_and_can_not_have_all_processes(pods: Pods, engine: Any) -> None:
    pods.create("plain", shell("grep -E 'NoNewPrivs|Seccomp:|CapEff' /proc/1/status; exec sleep 600"))
    eventually(lambda: pods.log("plain").count("\n") == 3, within=LIMIT)
    made = containers_of(engine, "plain")
    sandbox = made.pop("sandbox").attrs["HostConfig"]
    [main] = [container.attrs["HostConfig"] for container in made.values()]
    assert (main["PidsLimit"], sandbox["PidsLimit"]) == (4096, 8)
    assert (sandbox["CapDrop"], sandbox["ReadonlyRootfs"]) == (["ALL"], True)
    values = dict(line.replace("\t", " ").split(": ") for line in pods.log("plain").splitlines())
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2"), "seccomp's filter mode"
    assert not int(values["CapEff"], 16) >> 21 & 1, "CAP_SYS_ADMIN"
    pods.delete("plain")


def test_a_link_that_an_init_container_has_planted_leads_nowhere(pods: Pods, tmp_path: Path) -> None:
    (tmp_path / "of-this-machine").touch()
    whole = {"name": "shared", "mountPath": "/shared"}
    part = {"name": "shared", "mountPath": "/t", "subPath": "sub/deep"}
    links = {"last": f"mkdir /shared/sub; ln -s {tmp_path} /shared/sub/deep", "above": f"ln -s {tmp_path} /shared/sub"}
    for name, plant in links.items():
        init = shell(plant, "init", volumeMounts=[whole])
        main = shell("ls /t; echo x > /t/written", volumeMounts=[part])
        pods.create(f"planted-{name}", main, initContainers=[init], volumes=[{"name": "shared", "emptyDir": {}}])
        ended = ending(pods.end(f"planted-{name}"))
        assert [path.name for path in tmp_path.iterdir()] == ["of-this-machine"], "nothing was written"
        assert ended == (127, "StartError")
        assert "subPath 'sub/deep' contains a symbolic link" in pods.log(f"planted-{name}")


def test_a_link_is_not_followed_either_if_it_is_put_there_while_the_container_starts(
    pods: Pods, tmp_path: Path
) -> None:
    (tmp_path / "of-this-machine").touch()
    mounts = [{"name": "shared", "mountPath": "/shared"}, {"name": "shared", "mountPath": "/t", "subPath": "t"}]
    swap = f"cd /shared; mkdir -p t; touch t/mine; ln -s {tmp_path} l; {SWAP}"
    swapping = shell(swap, "swapping", volumeMounts=mounts[:1])
    look = [shell("ls /t; exit 1", f"look-{n}", volumeMounts=mounts[1:]) for n in range(4)]
    pods.create("raced", swapping, *look, volumes=[{"name": "shared", "emptyDir": {}}], restartPolicy="OnFailure")

    def is_done(status: Json) -> bool:
        containers = status.get("containerStatuses") or ()
        return sum(container["restartCount"] for container in containers) >= 8

    pods.until("raced", is_done, "eight starts")
    logs = [pods.log("raced", f"look-{n}", attempt) for n in range(4) for attempt in range(3)]
    pods.delete("raced")
    assert not [log for log in logs if "of-this-machine" in log], logs
    assert "mine\n" in logs or any("contains a symbolic link" in log for log in logs)


def test_what_a_container_uses_is_measured(pods: Pods) -> None:
    pods.create("busy", shell("x=$(head -c 30000000 /dev/zero | tr '\\0' x); while :; do :; done"))
    pods.until("busy", lambda status: status.get("phase") == "Running", "running")

    def measured() -> None:
        usage = pods.meter.read()
        assert usage is not None
        busy = next((container for container in usage.containers if container.name.pod == "busy"), None)
        assert busy is not None
        assert busy.cpu > 0.05, busy
        assert busy.memory > 25 << 20, busy

    eventually_holds(measured, within=LIMIT, every=0.5, what="its use")
    pods.delete("busy")
    assert (pods.peaks.of_pod("default", "busy")["main"] >> 20) > 25


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
    made = containers_of(engine, "robbed")
    sandbox = made.pop("sandbox")
    sandbox.kill()
    for container in made.values():
        container.kill()
    eventually(lambda: pods.log("robbed", attempt=1) == "started\n", within=LIMIT)

    def runs_again(status: Json) -> bool:
        [container] = status["containerStatuses"]
        return container["restartCount"] == 1 and "running" in container["state"]

    assert pods.until("robbed", runs_again, "it runs again")["phase"] == "Running"
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
