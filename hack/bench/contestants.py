"""The contestants: our operator and the Go operator, each with its own CRD, as processes of this machine.

Each is started the way its Deployment starts it, but for addresses. The Go operator runs without its validating
webhook being registered, which spares it (and the API server) a call per TFJob.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from hack import gobuild
from hack.bench.environment import Environment
from hack.processes import answers, becomes_ready, free_port, free_ports, spawn, tail
from tfoperator.api.schema.crd import crd

Json = dict[str, Any]

READY_SECONDS = 60.0
STOP_SECONDS = 30.0

FLOOR = "floor"
TUNED_PEER = "peer-tuned"
OURS = "ours"
"""As shipped: there is nothing to tune."""
OURS_PER_JOB, FLOOR_PER_JOB = "ours-per-job", "floor-per-job"
"""With one headless service per job."""
OURS_COUNTED = "ours-counted"
"""With its function calls counted, by thread (`profiled_operator`): ignore its other figures."""
OURS_OPEN = "ours-open"
"""With the CRD that leaves pod templates open: what their fields cost the API server is the difference."""
CALLS_FILE = Path("build/bench/profiles/operator-calls.txt")

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_PEER_NAMESPACE = "kubeflow"
_PEER_SECRET = "training-operator-webhook-cert"
_PEER_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # compiled into the peer
_PEER_WEBHOOK = "validator.training-operator.kubeflow.org"


class OperatorProcess:
    """A contestant that runs, `start()` to `stop()`. `around` is entered before the process and left after it."""

    def __init__(
        self, command: list[str], health_port: int, log: Path, around: AbstractContextManager[None] | None = None
    ) -> None:
        self._command = command
        self._health = f"http://127.0.0.1:{health_port}/readyz"
        self._log = log
        self._around = around or nullcontext()
        self._stack = ExitStack()
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
        self._stack.enter_context(self._around)
        began = time.monotonic()
        self._process = spawn(self._command, self._log, cwd=_REPOSITORY, start_new_session=True)
        if not becomes_ready(self._process, lambda: answers(self._health), READY_SECONDS):
            self.stop()
            raise RuntimeError(f"not ready in {READY_SECONDS:.0f} s: {self._command[0]}; its log ends:\n{self.tail()}")
        return time.monotonic() - began

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that is not enough. Idempotent."""
        with self._stack:
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
        return tail(self._log, lines)


@dataclass(frozen=True)
class Contestant:
    """One column of the table.

    `rate_limited`: its defaults hold it back, so it sits out the heavy loads. `per_job`: it makes one service for all
    replicas of a job. `on_request`: it takes part only if it is asked for by name.
    """

    name: str
    title: str
    crd: Callable[[], Json]
    launch: Callable[[Environment, tuple[str, ...], Path], OperatorProcess] | None
    flags: tuple[str, ...] = ()
    rate_limited: bool = False
    per_job: bool = False
    on_request: bool = False

    def process(self, environment: Environment, more: tuple[str, ...] = ()) -> OperatorProcess | None:
        """Its process, to be started, with more flags; the floor has none. Makes what must be there beforehand."""
        if self.launch is None:
            return None
        return self.launch(environment, (*self.flags, *more), environment.folder / "operator.log")


def _ours(environment: Environment, flags: tuple[str, ...], log: Path) -> OperatorProcess:
    return _our_program(("tfoperator.operator",), environment, flags, log)


def _ours_counted(environment: Environment, flags: tuple[str, ...], log: Path) -> OperatorProcess:
    return _our_program(("hack.bench.profiled_operator", str(CALLS_FILE)), environment, flags, log)


def _our_program(
    module: tuple[str, ...], environment: Environment, flags: tuple[str, ...], log: Path
) -> OperatorProcess:
    health, metrics = free_port(), free_port()
    command = [
        sys.executable, "-m", *module, f"--kubeconfig={environment.kubeconfig}",
        f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{health}", *flags,
    ]  # fmt: skip
    return OperatorProcess(command, health, log)


def progress_flags() -> tuple[str, ...]:
    """Return flags by which our operator takes reports, as a single replica that may write as often as two would."""
    (port,) = free_ports(1)
    return (
        f"--progress-bind-address=127.0.0.1:{port}",
        f"--progress-url=https://127.0.0.1:{port}",
        "--progress-writes-per-second=50",
    )


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


def _peer(environment: Environment, flags: tuple[str, ...], log: Path) -> OperatorProcess:
    health, metrics, webhook = free_port(), free_port(), free_port()
    _prepare_peer(environment)
    command = [
        str(gobuild.find("training-operator")), f"--kubeconfig={environment.kubeconfig}", "--enable-scheme=tfjob",
        f"--metrics-bind-address=127.0.0.1:{metrics}", f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-server-port={webhook}", *flags,
    ]  # fmt: skip
    return OperatorProcess(command, health, log, _certificates(environment))


def _prepare_peer(environment: Environment) -> None:
    secrets = f"/api/v1/namespaces/{_PEER_NAMESPACE}/secrets"
    if any(namespace["metadata"]["name"] == _PEER_NAMESPACE for namespace in environment.list("/api/v1/namespaces")):
        return
    environment.create("/api/v1/namespaces", {"metadata": {"name": _PEER_NAMESPACE}})
    environment.create(secrets, {"metadata": {"name": _PEER_SECRET}})
    environment.create(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {"metadata": {"name": _PEER_WEBHOOK}}
    )


@contextmanager
def _certificates(environment: Environment) -> Iterator[None]:
    """Play the kubelet: put the secret that the peer fills into the folder where it waits for it.

    The folder is this peer's as long as it runs: another peer, of a test beside it, waits until it has gone.
    """
    with gobuild.locked(_PEER_CERTIFICATES.with_suffix(".lock")):
        shutil.rmtree(_PEER_CERTIFICATES, ignore_errors=True)
        over = threading.Event()
        kubelet = threading.Thread(target=_mount, args=(environment, over), name="mounts the secret", daemon=True)
        kubelet.start()
        try:
            yield
        finally:
            over.set()
            kubelet.join(READY_SECONDS)


def _mount(environment: Environment, over: threading.Event) -> None:
    path = f"/api/v1/namespaces/{_PEER_NAMESPACE}/secrets/{_PEER_SECRET}"
    while not over.wait(0.1):
        secret = msgspec.json.decode(environment.client.request("GET", path), type=dict[str, Any])
        data: dict[str, str] = secret.get("data") or {}
        if "tls.crt" in data:
            complete = _PEER_CERTIFICATES.with_suffix(".partial")
            complete.mkdir(parents=True, exist_ok=True)
            for name, value in data.items():
                (complete / name).write_bytes(base64.b64decode(value))
            complete.rename(_PEER_CERTIFICATES)  # it looks for the first file, and then needs all
            return


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant(
            TUNED_PEER,
            "Go operator, tuned",
            peer_crd,
            _peer,
            ("--controller-threads=8", "--kube-api-qps=10000", "--kube-api-burst=10000"),
        ),
        Contestant("peer", "Go operator, as shipped", peer_crd, _peer, rate_limited=True),
        Contestant(OURS, "tfoperator", crd, _ours),
        Contestant(FLOOR, "floor: no controller", crd, None),
        Contestant(
            OURS_PER_JOB, "tfoperator, PerJob", crd, _ours, ("--default-network=PerJob",), per_job=True, on_request=True
        ),
        Contestant(FLOOR_PER_JOB, "floor, PerJob", crd, None, per_job=True, on_request=True),
        Contestant(OURS_OPEN, "tfoperator, open templates", partial(crd, open_templates=True), _ours, on_request=True),
        Contestant(OURS_COUNTED, f"tfoperator, its calls counted in {CALLS_FILE}", crd, _ours_counted, on_request=True),
    )
}
"""In the order of the table's columns."""
