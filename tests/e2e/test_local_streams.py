"""exec, attach, cp and port-forward under `tfoperator local up`, by kubectl and by the official Python client."""

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support import manifests
from tests.support.cluster import decode
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
from tests.support.kubectl import Kubectl
from tests.support.threads import no_threads_left
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.runtime.selection import RuntimeOptions

NAMESPACE = "default"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    with no_threads_left():
        running = ControlPlane(folder / "run", pods=RuntimeOptions(work_dir=folder))
        running.start()
        yield running
        running.stop()


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    folder = tmp_path_factory.mktemp("kubectl")
    return Kubectl(write_kubeconfig(folder / "kubeconfig", plane.endpoint.kubeconfig(), NAMESPACE), NAMESPACE)


def run_pod(plane: ControlPlane, kubectl: Kubectl, name: str, script: str = "sleep 600") -> None:
    env = [{"name": "GREETING", "value": "hello"}]
    container = {"name": "main", "image": manifests.IMAGE, "command": ["sh", "-c", script], "env": env}
    body = manifests.pod(name, containers=[container], terminationGracePeriodSeconds=1)
    plane.client.create(PODS, NAMESPACE, body, decode)
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


@pytest.fixture(scope="module")
def pod(plane: ControlPlane, kubectl: Kubectl) -> str:
    run_pod(plane, kubectl, "talks")
    return "talks"


def test_a_command_has_the_containers_environment_and_both_outputs(kubectl: Kubectl, pod: str) -> None:
    done = kubectl.run("exec", pod, "--", "sh", "-c", "echo $GREETING; echo aside >&2; exit 3")

    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert "aside" in done.stderr


def test_a_command_reads_what_is_typed(kubectl: Kubectl, pod: str) -> None:
    assert kubectl("exec", "-i", pod, "--", "tr", "a-z", "A-Z", stdin="typed\n" * 20_000) == "TYPED\n" * 20_000


def test_files_are_copied_both_ways(kubectl: Kubectl, pod: str, tmp_path: Path) -> None:
    there, content = tmp_path / "there", os.urandom(300_000)
    there.mkdir()
    (tmp_path / "file").write_bytes(content)

    kubectl("cp", str(tmp_path / "file"), f"{pod}:{there}/copied")
    kubectl("cp", f"{pod}:{there}/copied", str(tmp_path / "back"))

    assert (there / "copied").read_bytes() == content
    assert (tmp_path / "back").read_bytes() == content


STREAM = """
from kubernetes import client, config
from kubernetes.stream import stream
config.load_kube_config()
api = client.CoreV1Api()
run = ["sh", "-c", "read line; echo got $line; test -t 0 && echo terminal; stty size"]
shell = stream(
    api.connect_get_namespaced_pod_exec, "talks", "default", command=run,
    stdin=True, stdout=True, stderr=True, tty=True, _preload_content=False,
)
shell.write_channel(4, '{"Width": 100, "Height": 40}')
shell.write_stdin("typed\\n")
shell.run_forever(timeout=60)
code = shell.returncode
print(shell.read_all(), code)
"""


def test_a_terminal_is_one_and_has_a_size(kubectl: Kubectl, pod: str) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    done = subprocess.run(
        [sys.executable, "-c", STREAM], env=environment, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "got typed" in done.stdout
    assert "terminal" in done.stdout
    assert "40 100" in done.stdout
    assert done.stdout.rstrip().endswith(" 0")


def _processes(mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", mark]]


def test_a_client_that_goes_takes_its_command_with_it(kubectl: Kubectl, pod: str) -> None:
    mark = f"{time.time():.6f}"
    with kubectl.lines("exec", pod, "--", "sh", "-c", f"echo there; sleep {mark}; true") as lines:
        assert next(lines) == "there\n"
        eventually(lambda: _processes(mark), within=60, what="the command runs")

    eventually(lambda: not _processes(mark), within=60, what="the command has ended")


def test_a_container_that_ends_takes_commands_with_it(plane: ControlPlane, kubectl: Kubectl) -> None:
    run_pod(plane, kubectl, "ends")
    mark = f"{time.time():.6f}"
    with kubectl.lines("exec", "ends", "--", "sh", "-c", f"echo there; sleep {mark}; true") as lines:
        assert next(lines) == "there\n"
        kubectl("delete", "pod", "ends", "--now")

        eventually(lambda: not _processes(mark), within=60, what="the command has ended")


def test_attach_reads_along_from_now_on(plane: ControlPlane, kubectl: Kubectl) -> None:
    run_pod(plane, kubectl, "counts", "n=0; while true; do n=$((n+1)); echo line $n; sleep 0.1; done")

    with kubectl.lines("attach", "counts") as lines:
        assert any(line.startswith("line ") for line in lines)


def test_logs_have_times_and_can_begin_at_one(plane: ControlPlane, kubectl: Kubectl) -> None:
    run_pod(plane, kubectl, "tells", "echo early; until [ -e late ]; do sleep 0.1; done; echo late; exec sleep 600")
    [early] = eventually(lambda: kubectl("logs", "tells", "--timestamps").splitlines(), what="the first line")
    when = datetime.fromisoformat(early.split(" ")[0])
    assert early.endswith("Z early")
    assert abs((datetime.now(UTC) - when).total_seconds()) < 3600
    # kubectl sends whole seconds.
    eventually(lambda: datetime.now(UTC) >= when.replace(microsecond=0) + timedelta(seconds=2), what="another second")
    (plane.run_dir.parent / "late").touch()
    eventually(lambda: "late" in kubectl("logs", "tells"), what="the second line")
    stamped = kubectl("logs", "tells", "--timestamps").splitlines()
    assert stamped[0] == early, "a time stays"
    later = stamped[1].split(" ")[0]
    assert kubectl("logs", "tells", f"--since-time={later}") == "late\n"
    assert kubectl("logs", "tells", "--since=1h") == "early\nlate\n"


def test_what_can_not_be_done_says_why(kubectl: Kubectl, pod: str) -> None:
    missing = kubectl.run("exec", pod, "--", "no-such-program")
    forwarded = kubectl.run("port-forward", pod, "0:80")
    gone = kubectl.run("exec", "nobody", "--", "true")

    assert "no-such-program" in missing.stderr
    assert "connect to the port directly" in forwarded.stderr
    assert 'pods "nobody" not found' in gone.stderr
    assert (missing.returncode, forwarded.returncode, gone.returncode) == (1, 1, 1)


@pytest.mark.parametrize("arguments", [("exec", "talks", "--", "true"), ("attach", "talks"), ("cp", "talks:/x", "y")])
def test_a_client_of_spdy_is_told_what_to_use(
    kubectl: Kubectl, pod: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    # As kubectl before 1.31, and client-go's own executor.
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")
    done = Kubectl(kubectl.kubeconfig, NAMESPACE).run(*arguments, timeout=60)
    assert done.returncode == 1
    assert "SPDY is not supported here: use kubectl 1.31 or later" in done.stderr


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("what", ["exec?command=true&stdout=true", "attach?stdout=true", "portforward"])
def test_a_refused_upgrade_is_answered_and_ends_the_connection(
    plane: ControlPlane, pod: str, method: str, what: str
) -> None:
    config = plane.endpoint.kubeconfig()
    address = urlsplit(config["clusters"][0]["cluster"]["server"])
    head = (
        f"{method} /api/v1/namespaces/{NAMESPACE}/pods/{pod}/{what} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Authorization: Bearer {config['users'][0]['user']['token']}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    )
    trust = ssl.create_default_context(
        cadata=base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    )
    with (
        socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as plain,
        trust.wrap_socket(plain, server_hostname=address.hostname) as connection,
        connection.makefile("rb") as answer,
    ):
        connection.sendall(head.encode() + b"\x80\x03\x00\x01")  # SPDY's first frame, sent in hope
        status, _, rest = answer.read().partition(b"\r\n")  # to the end of the connection
    assert status in (b"HTTP/1.1 400 Bad Request", b"HTTP/1.1 501 Not Implemented")
    assert json.loads(rest.partition(b"\r\n\r\n")[2])["status"] == "Failure"
