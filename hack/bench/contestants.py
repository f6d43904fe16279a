"""Who takes part: our operator and the Go operator, each with its own CRD, as processes of this machine.

Each is started the way its Deployment starts it, but for addresses. The Go operator runs without its validating
webhook being registered, which spares it (and the API server) a call per TFJob.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hack import gobuild
from hack.bench.arena import Arena
from tfoperator.api.crd import crd

__all__ = ["CONTESTANTS", "FLOOR", "TUNED_PEER", "Contestant", "OperatorProcess"]

Json = dict[str, Any]

READY_SECONDS = 60.0
STOP_SECONDS = 30.0

FLOOR = "floor"
TUNED_PEER = "peer-tuned"

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_PEER_NAMESPACE = "kubeflow"
_PEER_SECRET = "training-operator-webhook-cert"
_PEER_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # compiled into the peer
_PEER_WEBHOOK = "validator.training-operator.kubeflow.org"


class OperatorProcess:
    """A contestant as a process, `start()` to `stop()`. `beside` runs in a thread until the process is ready."""

    def __init__(self, command: list[str], health_port: int, log: Path, beside: Callable[[], None] | None) -> None:
        self._command = command
        self._health = f"http://127.0.0.1:{health_port}/readyz"
        self._log = log
        self._beside = beside
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> float:
        """Start it and wait until it is ready; returns how many seconds that took.

        Raises RuntimeError with the end of its log.
        """
        began = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=_REPOSITORY, start_new_session=True
            )
        helper = threading.Thread(target=self._beside, name="beside the peer", daemon=True) if self._beside else None
        if helper:
            helper.start()
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() - began > READY_SECONDS:
                self.stop()
                raise RuntimeError(
                    f"not ready in {READY_SECONDS:.0f} s: {self._command[0]}; its log ends:\n{self.tail()}"
                )
            time.sleep(0.02)
        ready = time.monotonic() - began
        if helper:
            helper.join(READY_SECONDS)
        return ready

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not enough. Idempotent."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(self._health, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


@dataclass(frozen=True)
class Contestant:
    """One column of the table. `rate_limited`: its defaults hold it back, so it sits out the heavy loads."""

    name: str
    title: str
    crd: Callable[[], Json]
    launch: Callable[[Arena, tuple[str, ...]], OperatorProcess] | None
    flags: tuple[str, ...] = ()
    rate_limited: bool = False

    def process(self, arena: Arena) -> OperatorProcess | None:
        """Its process, to be started; the floor has none. Makes what must be there beforehand."""
        return self.launch(arena, self.flags) if self.launch else None


def _ours(arena: Arena, flags: tuple[str, ...]) -> OperatorProcess:
    health, metrics = _free_port(), _free_port()
    command = [
        sys.executable, "-m", "tfoperator.operator", f"--kubeconfig={arena.kubeconfig}",
        f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{health}", *flags,
    ]  # fmt: skip
    return OperatorProcess(command, health, arena.folder / "operator.log", None)


def peer_crd() -> Json:
    """The peer's CRD, from its module. Raises BuildError."""
    text = (
        gobuild.module_folder(gobuild.PEER_PROGRAM.module, gobuild.PEER)
        / "manifests"
        / "base"
        / "crds"
        / "kubeflow.org_tfjobs.yaml"
    ).read_text()
    loaded: Json = yaml.safe_load(text)
    return loaded


def _peer(arena: Arena, flags: tuple[str, ...]) -> OperatorProcess:
    health, metrics, webhook = _free_port(), _free_port(), _free_port()
    _prepare_peer(arena)
    command = [
        str(gobuild.ensure("training-operator")), f"--kubeconfig={arena.kubeconfig}", "--enable-scheme=tfjob",
        f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-server-port={webhook}", *flags,
    ]  # fmt: skip
    return OperatorProcess(command, health, arena.folder / "operator.log", lambda: _mount_certificates(arena))


def _prepare_peer(arena: Arena) -> None:
    secrets = f"/api/v1/namespaces/{_PEER_NAMESPACE}/secrets"
    if any(one["metadata"]["name"] == _PEER_NAMESPACE for one in arena.list("/api/v1/namespaces")):
        return
    arena.create("/api/v1/namespaces", {"metadata": {"name": _PEER_NAMESPACE}})
    arena.create(secrets, {"metadata": {"name": _PEER_SECRET}})
    arena.create(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {"metadata": {"name": _PEER_WEBHOOK}}
    )


def _mount_certificates(arena: Arena) -> None:
    """Play the kubelet: put the secret that the peer fills into the folder where it waits for it."""
    path = f"/api/v1/namespaces/{_PEER_NAMESPACE}/secrets/{_PEER_SECRET}"
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        secret = msgspec.json.decode(arena.client.request("GET", path), type=dict[str, Any])
        data: dict[str, str] = secret.get("data") or {}
        if "tls.crt" in data:
            _PEER_CERTIFICATES.mkdir(parents=True, exist_ok=True)
            for name, value in data.items():
                (_PEER_CERTIFICATES / name).write_bytes(base64.b64decode(value))
            return
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


CONTESTANTS = {
    one.name: one
    for one in (
        Contestant(
            TUNED_PEER,
            "Go operator, tuned",
            peer_crd,
            _peer,
            ("--controller-threads=8", "--kube-api-qps=10000", "--kube-api-burst=10000"),
        ),
        Contestant("peer", "Go operator, as shipped", peer_crd, _peer, rate_limited=True),
        Contestant("ours", "tfoperator, defaults", crd, _ours, rate_limited=True),
        Contestant("ours-tuned", "tfoperator, tuned", crd, _ours, ("--kube-api-qps=-1",)),
        Contestant(FLOOR, "floor: no controller", crd, None),
    )
}
"""In the order of the table's columns."""
