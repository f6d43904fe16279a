"""A single-node Kubernetes cluster on this machine: real containers, real DNS, no registry. Needs Linux and root.

    python hack/cluster.py up                    start it in the background, print the path of a kubeconfig
    python hack/cluster.py load-image ARCHIVE    give its node an image, as `docker save` writes them
    python hack/cluster.py down | status

The control plane runs as for other tests (hack/controlplane.py). The node runs in its own namespaces (hack/machine.py).
Only this machine can reach them. `down` removes everything: processes, mounts, interfaces, rules and control groups.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack import debian, gobuild, node
from hack.controlplane import PROGRAMS, ControlPlane, ControlPlaneError, Network
from hack.debian import PackageError
from hack.machine import HOST_ADDRESS, SERVICE_CIDR, Machine, MachineError, require_root

CONTROLLERS = (
    "deployment-controller", "disruption-controller", "endpointslice-controller", "garbage-collector-controller",
    "job-controller", "namespace-controller", "node-lifecycle-controller", "persistentvolume-binder-controller",
    "pod-garbage-collector-controller", "replicaset-controller", "root-ca-certificate-publisher-controller",
    "resourcequota-controller", "serviceaccount-controller", "taint-eviction-controller",
)  # fmt: skip
NETWORK = Network(HOST_ADDRESS, SERVICE_CIDR, ",".join(CONTROLLERS), for_pods=True)

Progress = Callable[[str], None]


class Cluster:
    """A cluster in a folder, which also remembers it for another process. Not thread-safe; one on a machine."""

    def __init__(
        self,
        folder: Path,
        *,
        users: dict[str, str] | None = None,
        audit_policy: str | None = None,
        progress: Progress = lambda _: None,
    ) -> None:
        """`users` and `audit_policy` are the control plane's."""
        self.folder = folder
        self.plane = ControlPlane(
            folder / "controlplane", users=users, audit_policy=audit_policy, network=NETWORK, outlives_maker=True
        )
        self._progress = progress
        self._machine: Machine | None = None
        self._node: node.Node | None = None

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.plane.kubeconfig

    def start(self) -> None:
        """Start it; returns when pods can run. Raises MachineError, ControlPlaneError, BuildError, PackageError."""
        require_root()
        node.require_no_other()
        machine = self._machine = Machine.start(node.NODE_NAME)
        state = {"machine": [machine.pid, machine.init_pid], "sysctls": node.read_sysctls(), "pids": {}}
        try:
            self._remember(state)
            self._progress("starting etcd and kube-apiserver")
            self.plane.start()
            self._remember({**state, "pids": self.plane.pids, "kubeconfig": str(self.kubeconfig)})
            self._progress("starting containerd, kubelet, kube-proxy and CoreDNS")
            self._node = node.Node(machine, self.folder / "node", self.kubeconfig)
            self._node.start()
        except BaseException:
            self.stop()
            raise

    def without_kubelet(self) -> AbstractContextManager[None]:
        """Stop the node's kubelet for a while. Only for the process that started the cluster."""
        assert self._node is not None, "another process started the node"
        return self._node.without_kubelet()

    def load_image(self, archive: Path) -> None:
        """Give the node an image. Raises MachineError."""
        node.load_image(running_machine(self.folder), archive)

    def by_digest(self, image: str) -> str:
        """The name of an image of the node by its digest, under which containers can use it. Raises MachineError."""
        return node.name_by_digest(running_machine(self.folder), image)

    def stop(self) -> None:
        """Stop everything and remove its folder. Idempotent."""
        state = recall(self.folder)
        if state is not None:
            (self._machine or Machine(*state["machine"])).stop()
            if self._node is not None:
                self._node.join()
            if self.plane.pids:
                self.plane.kill()
            else:  # another process started them
                for pid in state["pids"].values():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            node.remove_traces(state["sysctls"])
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remember(self, state: Mapping[str, object]) -> None:
        (self.folder / "cluster.json").write_text(json.dumps(state))


def recall(folder: Path) -> dict[str, Any] | None:
    """Return the record of a folder's cluster; None if the folder has no cluster."""
    try:
        return dict(json.loads((folder / "cluster.json").read_text()))
    except FileNotFoundError:
        return None


def running_machine(folder: Path) -> Machine:
    """The machine that the node of this folder's cluster runs in. Raises MachineError if there is none."""
    state = recall(folder)
    if state is None or not Path("/proc", str(state["machine"][1])).exists():
        raise MachineError("no cluster is up; start one with: python hack/cluster.py up")
    return Machine(*state["machine"])


def _up(folder: Path) -> None:
    state = recall(folder)
    if state is None or not Path("/proc", str(state["machine"][1])).exists():
        gobuild.build(*PROGRAMS, "kube-scheduler", "kubectl", *node.PROGRAMS)
        debian.unpack(debian.NODE)
        Cluster(folder).stop()  # the remains of a cluster that crashed
        cluster = Cluster(folder, progress=_log)
        started = time.monotonic()
        cluster.start()
        _await_node(cluster.kubeconfig)
        _log(f"ready after {time.monotonic() - started:.0f} s; `kubectl get nodes` works with this kubeconfig:")
        print(cluster.kubeconfig)
    else:
        _log("a cluster is up already:")
        print(state["kubeconfig"])


def _await_node(kubeconfig: Path) -> None:
    """Wait until the API server lists the node as ready: its kubelet answers a moment before. Raises MachineError."""
    for condition in ("create", "condition=Ready"):
        wait = ["wait", f"--for={condition}", f"node/{node.NODE_NAME}", "--timeout=60s"]
        command = [str(gobuild.find("kubectl")), f"--kubeconfig={kubeconfig}", *wait]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MachineError(f"the node does not get ready: {done.stderr.strip()}")


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(description="A single-node Kubernetes cluster on this machine, for tests.")
    parser.add_argument("--folder", type=Path, default=gobuild.cache_root() / "cluster", help="the folder of its files")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start it in the background and print the path of a kubeconfig")
    commands.add_parser("down", help="stop it and remove everything")
    commands.add_parser("status", help="print whether it runs; exit code 1 if it does not run")
    load = commands.add_parser("load-image", help="load an image into the node")
    load.add_argument("archive", type=Path, help="an archive of `docker save`")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "up":
            _up(arguments.folder)
        elif arguments.command == "down":
            require_root()
            Cluster(arguments.folder).stop()
        elif arguments.command == "status":
            running_machine(arguments.folder)
            print(f"up; KUBECONFIG={(recall(arguments.folder) or {}).get('kubeconfig')}")
        else:
            Cluster(arguments.folder).load_image(arguments.archive.resolve())
    except (MachineError, ControlPlaneError, gobuild.BuildError, PackageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
