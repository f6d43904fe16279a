"""A real Kubernetes control plane on this machine: etcd, kube-apiserver and kube-controller-manager, on loopback.

    python hack/controlplane.py build            build the control plane and other programs for tests; print the paths
    python hack/controlplane.py up               start it in the background, print the path of a kubeconfig
    python hack/controlplane.py down | status

Tests use the `ControlPlane` class. There is no kubelet: to let pods run, tests write the status of pods, or start kwok.
The API server authorises with RBAC. The user of the kubeconfig is an administrator, and `kubeconfig_for` writes a
kubeconfig for another user. All files are in one folder, and `stop()` removes this folder.
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack import debian, gobuild, postgres, strangers
from hack.processes import STOP_SECONDS, answers, becomes_ready, end_process, free_ports, is_alive, spawn, tail

_ETCD_BYTES = 8 << 30
"""The largest size of etcd's file. Its default, 2 GiB, is too small for 1,000 TFJobs of a megabyte."""
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
START_SECONDS = 120.0


class ControlPlaneError(Exception):
    """The control plane does not start or stop; the message holds the end of the log."""


@dataclass(frozen=True)
class Network:
    """Where the API server listens, and whether pods that really run are to reach it."""

    address: str
    service_cidr: str
    controllers: str
    for_pods: bool = False
    """Pods get service account tokens, and a scheduler finds them a node."""


LOOPBACK = Network(
    "127.0.0.1",
    "10.0.0.0/20",
    "garbage-collector-controller,namespace-controller,clusterrole-aggregation-controller",
)


class ControlPlane:
    """One control plane in a folder of its own. Not thread-safe; several can run side by side."""

    def __init__(
        self,
        folder: Path,
        *,
        users: dict[str, str] | None = None,
        audit_policy: str | None = None,
        api_server_flags: Sequence[str] = (),
        network: Network = LOOPBACK,
        more_controllers: str = "",
        outlives_maker: bool = False,
    ) -> None:
        """`users` maps a user name to its groups ("a,b"); `audit_policy` is the text of an audit policy.

        `more_controllers` ("a,b") run besides the controllers of `network`. `feature_gates` ("A=true,B=true") may be
        set later, for programs that are started from then on.

        Unless it `outlives_maker`, everything ends with the thread that started it, however that ends (Linux).
        """
        self.folder = folder
        self._network = network
        self._controllers = ",".join(filter(None, (network.controllers, more_controllers)))
        folder.mkdir(parents=True, exist_ok=True)
        self.kubeconfig = folder / "kubeconfig"
        self.audit_log = folder / "audit.log"
        self._audit_policy = audit_policy
        self._api_server_flags = api_server_flags
        self.feature_gates = ""
        self._users = {"admin": "system:masters", **(users or {})}
        self._tokens = {user: secrets.token_urlsafe(24) for user in self._users}
        self._etcd_port, self._etcd_peer_port, self.port = free_ports(3)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        setpriv = None if outlives_maker else shutil.which("setpriv")  # of util-linux
        self._until_maker_ends = [setpriv, "--pdeathsig=KILL", "--"] if setpriv else []

    @property
    def url(self) -> str:
        """The API server's base URL."""
        return f"https://{self._network.address}:{self.port}"

    @property
    def token(self) -> str:
        """The administrator's bearer token."""
        return self._tokens["admin"]

    def token_of(self, user: str) -> str:
        """The bearer token of one of the users named at construction."""
        return self._tokens[user]

    @property
    def ca_file(self) -> Path:
        """The certificate that the API server made for itself."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def pids(self) -> dict[str, int]:
        """The running programs."""
        return {name: process.pid for name, process in self._processes.items()}

    def start(self) -> None:
        """Start everything and return when the API server is ready. Raises ControlPlaneError, BuildError."""
        self._write_credentials()
        try:
            self.start_etcd()
            self.start_api_server()
            self.start_controller_manager()
            if self._network.for_pods:
                self.start_scheduler()
        except BaseException:
            self.stop()
            raise

    def start_etcd(self) -> None:
        """Start etcd without fsync: what it keeps need not outlive a power cut here."""
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._etcd_peer_port}"
        self._spawn(
            "etcd", "--name=default", f"--data-dir={self.folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=warn",
            f"--quota-backend-bytes={_ETCD_BYTES}",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        )  # fmt: skip
        self._wait("etcd", f"{client}/health")

    def start_api_server(self) -> None:
        """Start kube-apiserver on the same port as before and wait until it is ready."""
        key = self.folder / "service-account.key"
        audit = (
            [f"--audit-policy-file={self.folder / 'audit.yaml'}", f"--audit-log-path={self.audit_log}"]
            if self._audit_policy
            else []
        )
        for_pods = (
            ["--allow-privileged", "--kubelet-preferred-address-types=InternalIP"]
            if self._network.for_pods
            else ["--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"]
        )
        self._spawn(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--bind-address={self._network.address}", f"--advertise-address={self._network.address}",
            f"--secure-port={self.port}", f"--cert-dir={self.folder / 'certs'}", "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={self._network.service_cidr}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--shutdown-delay-duration=0s", *for_pods, *audit,
            *self._api_server_flags, *self._gates,
        )  # fmt: skip
        self._wait("kube-apiserver", f"{self.url}/readyz")

    def start_controller_manager(self) -> None:
        """Start the controllers (default: garbage collector and namespaces); they work a moment later."""
        self._spawn(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}", f"--controllers={self._controllers}",
            "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials=false",
            "--kube-api-qps=200", "--kube-api-burst=400", f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={self.folder / 'service-account.key'}", *self._gates,
        )  # fmt: skip

    def start_scheduler(self) -> None:
        """Start kube-scheduler; it works a moment later."""
        self._spawn("kube-scheduler", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0")

    @property
    def _gates(self) -> list[str]:
        return [f"--feature-gates={self.feature_gates}"] if self.feature_gates else []

    def stop_api_server(self) -> None:
        """Stop kube-apiserver alone, as an upgrade of the control plane would; its state stays in etcd."""
        self._terminate("kube-apiserver")

    def stop_controller_manager(self) -> None:
        """Stop kube-controller-manager alone: garbage is collected only after its next start."""
        self._terminate("kube-controller-manager")

    def stop(self) -> None:
        """Stop everything, newest first. Idempotent."""
        for name in reversed(list(self._processes)):
            self._terminate(name)

    def kill(self) -> None:
        """Stop everything at once, because its data are not needed any more. Idempotent."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait(STOP_SECONDS)
        self._processes.clear()

    def kubeconfig_for(self, user: str, path: Path | None = None) -> Path:
        """Write a kubeconfig (mode 0600) for one of the users named at construction, and return its path."""
        target = path or self.folder / f"kubeconfig-{user}"
        named = {
            "clusters": {"cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}},
            "users": {"user": {"token": self._tokens[user]}},
            "contexts": {"context": {"cluster": "local", "user": "local", "namespace": "default"}},
        }
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "local"} | {
            section: [{"name": "local", **entry}] for section, entry in named.items()
        }
        target.touch(mode=0o600)
        target.write_text(json.dumps(config, indent=1))
        return target

    def _write_credentials(self) -> None:
        tokens = "".join(f'{self._tokens[u]},{u},{u},"{groups}"\n' for u, groups in self._users.items())
        (self.folder / "tokens.csv").touch(mode=0o600)
        (self.folder / "tokens.csv").write_text(tokens)
        key = self.folder / "service-account.key"
        if not key.exists():
            command = ["openssl", "genrsa", "-out", str(key), "2048"]
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        if self._audit_policy:
            (self.folder / "audit.yaml").write_text(self._audit_policy)
        self.kubeconfig_for("admin", self.kubeconfig)

    def _spawn(self, name: str, *flags: str) -> None:
        command: list[str | Path] = [*self._until_maker_ends, gobuild.find(name), *flags]
        self._processes[name] = spawn(command, self.folder / f"{name}.log", start_new_session=True)

    def _wait(self, name: str, url: str) -> None:
        process, ca_file = self._processes[name], self.ca_file if url.startswith("https") else None
        if not becomes_ready(process, lambda: answers(url, token=self.token, ca_file=ca_file), START_SECONDS):
            ended = f"not ready in {START_SECONDS} s" if process.poll() is None else f"ended with {process.returncode}"
            raise ControlPlaneError(f"{name} {ended}; its log ends:\n{tail(self.folder / f'{name}.log')}")

    def _terminate(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        end_process(process.pid, lambda: process.poll() is not None)
        process.wait(5)


@contextmanager
def control_plane(**options: Any) -> Iterator[ControlPlane]:
    """A running control plane in a temporary folder, stopped and removed afterwards; `options` go to ControlPlane.

    Raises ControlPlaneError, BuildError. A test that needs it fails where it can't be had: a skip would hide that the
    operator was never shown to a real API server.
    """
    with tempfile.TemporaryDirectory(prefix="tfoperator-controlplane-") as folder:
        plane = ControlPlane(Path(folder), **options)
        plane.start()
        try:
            yield plane
        finally:
            plane.kill()  # which does not wait for watches: its data are not needed any more


def _up(folder: Path, state: Path) -> int:
    if state.exists() and all(is_alive(pid) for pid in json.loads(state.read_text())["pids"].values()):
        print(json.loads(state.read_text())["kubeconfig"])
        return 0
    gobuild.build(*PROGRAMS)
    shutil.rmtree(folder, ignore_errors=True)
    plane = ControlPlane(folder, outlives_maker=True)
    plane.start()
    state.write_text(json.dumps({"pids": plane.pids, "kubeconfig": str(plane.kubeconfig), "url": plane.url}))
    print(plane.kubeconfig)
    return 0


def _down(folder: Path, state: Path) -> int:
    if state.exists():
        for pid in reversed(list(json.loads(state.read_text())["pids"].values())):
            end_process(pid)
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _status(state: Path) -> int:
    if not state.exists():
        print("not running")
        return 1
    recorded = json.loads(state.read_text())
    for name, pid in recorded["pids"].items():
        print(f"{name}: {'running' if is_alive(pid) else 'ended'} (pid {pid})")
    print(f"KUBECONFIG={recorded['kubeconfig']}")
    return 0 if all(is_alive(pid) for pid in recorded["pids"].values()) else 1


def _unpack_packages() -> list[Path]:
    """Unpack the packages for tests with containers and with a browser, which run on Debian only."""
    if shutil.which("apt-get") is None:
        print("Debian's packages are left out, for apt-get isn't there: tests that need them fail", file=sys.stderr)
        return []
    wanted = [debian.DOCKER_ENGINE, debian.NODE, debian.CHROMIUM]
    if not postgres.is_installed():
        wanted.append(debian.POSTGRESQL)
    return [debian.unpack(packages) for packages in wanted]


def _build() -> list[Path]:
    """Get everything that tests need. Downloads that only wait for packages run while Go compiles."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        others, unpacked = pool.submit(strangers.install), pool.submit(_unpack_packages)
        return [*gobuild.build_all(), *others.result(), *unpacked.result()]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="A real Kubernetes control plane on loopback, for tests.")
    parser.add_argument("command", choices=["build", "up", "down", "status"])
    parser.add_argument(
        "--folder", type=Path, default=gobuild.cache_root() / "controlplane", help="folder of its files"
    )
    arguments = parser.parse_args(argv)
    folder: Path = arguments.folder
    state = folder / "state.json"
    try:
        if arguments.command == "build":
            print(*_build(), sep="\n")
            return 0
        if arguments.command == "up":
            return _up(folder, state)
        return _down(folder, state) if arguments.command == "down" else _status(state)
    except (ControlPlaneError, gobuild.BuildError, debian.PackageError, strangers.StrangersError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
