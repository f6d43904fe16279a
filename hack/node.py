"""A Kubernetes node inside a `Machine`: containerd, kubelet, kube-proxy and CoreDNS, as processes of this machine.

runc, the CNI plugins and iptables come from Debian packages, unpacked into the cache. All other programs are built from
Go modules. CoreDNS runs as a process and not in a pod, because the tests check only which names pods can resolve.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from hack import debian, gobuild, images
from hack.machine import NODE_ADDRESS, POD_CIDR, Machine, MachineError
from hack.processes import answers, becomes_ready, comes_true, remove_cgroups, spawn, tail

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "coredns", "kube-proxy", "kubelet")
NODE_NAME = "tfo-node"
PAUSE = "docker.io/local/pause:1"
SYSCTLS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)  # fmt: skip
START_SECONDS = 120.0
STOP_SECONDS = 20.0
SOCKET = "/run/containerd.sock"
"""Inside the machine, where /run is its own."""


class Node:
    """One node. Not thread-safe."""

    def __init__(self, machine: Machine, folder: Path, kubeconfig: Path) -> None:
        self._machine = machine
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._root = debian.find(debian.NODE)
        self._environment = debian.environment(self._root)
        self._environment["PATH"] = f"{folder / 'bin'}:{self._environment['PATH']}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start everything; returns when containers can be made. Raises MachineError, BuildError, PackageError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._hide_the_system()
        self._write_configuration()
        self._spawn("containerd", gobuild.find("containerd"), "--config", self._folder / "containerd.toml")
        self._wait("containerd", self._engine_answers)
        pause = images.write_image(
            self._folder / "pause.tar", PAUSE, images.busybox(self.busybox), command=["/bin/sleep", "2147483647"]
        )
        load_image(self._machine, pause)
        self._spawn("coredns", gobuild.find("coredns"), "-conf", self._folder / "Corefile")
        self._spawn("kube-proxy", gobuild.find("kube-proxy"), f"--config={self._folder / 'kube-proxy.json'}")
        self._spawn(
            "kubelet", gobuild.find("kubelet"), f"--config={self._folder / 'kubelet.json'}",
            f"--kubeconfig={self._kubeconfig}", f"--hostname-override={NODE_NAME}", f"--node-ip={NODE_ADDRESS}",
            f"--root-dir={self._folder / 'kubelet'}", f"--cert-dir={self._folder / 'pki'}",
        )  # fmt: skip
        self._wait("kubelet", lambda: answers(f"http://{NODE_ADDRESS}:10248/healthz"))
        self._wait("coredns", lambda: answers(f"http://{NODE_ADDRESS}:8181/ready"))

    def join(self) -> None:
        """Wait for the end of the node's processes, once its machine has stopped."""
        for process in self._processes.values():
            process.wait(STOP_SECONDS)

    @contextmanager
    def without_kubelet(self) -> Iterator[None]:
        """Stop the kubelet for a while: for the cluster the node is lost. Containers run on."""
        first = psutil.Process(self._processes["kubelet"].pid)
        [kubelet] = [
            candidate for candidate in (first, *first.children(recursive=True)) if candidate.name() == "kubelet"
        ]
        kubelet.suspend()
        try:
            yield
        finally:
            # Programs that have entered the machine for it stop with it, and have to go on first.
            for process in (first, kubelet):
                process.resume()

    @property
    def busybox(self) -> Path:
        """A static busybox."""
        return self._root / "bin/busybox"

    def _hide_the_system(self) -> None:
        # Engines and kubelets write to fixed places; in this mount namespace these are empty, and gone at the end.
        for place in ("/run", "/var/lib", "/var/log", "/opt"):
            self._machine.run("mount", "-t", "tmpfs", "tmpfs", place)
        self._machine.run("mount", "--make-rshared", "/")

    def _write_configuration(self) -> None:
        debian.link_iptables(self._root, self._folder / "bin")
        shim = gobuild.find("containerd-shim-runc-v2")  # which containerd looks for where programs are
        (self._folder / "bin" / shim.name).unlink(missing_ok=True)
        (self._folder / "bin" / shim.name).symlink_to(shim)
        (self._folder / "containerd.toml").write_text(self._containerd_configuration())
        (self._folder / "cni").mkdir(exist_ok=True)
        (self._folder / "cni" / "10-bridge.conflist").write_text(json.dumps(CNI))
        (self._folder / "kubelet.json").write_text(json.dumps(self._kubelet_configuration()))
        (self._folder / "kube-proxy.json").write_text(json.dumps(self._kube_proxy_configuration()))
        (self._folder / "Corefile").write_text(
            f".:53 {{\n errors\n ready :8181\n kubernetes cluster.local {{\n  kubeconfig {self._kubeconfig} local\n"
            "  ttl 1\n }\n}\n"
        )

    def _containerd_configuration(self) -> str:
        cri = 'plugins."io.containerd.cri.v1.runtime"'
        return f"""
            version = 3
            root = "{self._folder / "containerd"}"
            state = "/run/containerd"
            disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs"]
            [grpc]
            address = "{SOCKET}"
            [{cri}]
            restrict_oom_score_adj = true  # lowering it needs CAP_SYS_RESOURCE, which even root may lack
            [{cri}.cni]
            bin_dirs = ["{self._root / "usr/lib/cni"}"]
            conf_dir = "{self._folder / "cni"}"
            [plugins."io.containerd.cri.v1.images".pinned_images]
            sandbox = "{PAUSE}"
        """

    def _kubelet_configuration(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": NODE_ADDRESS,
            "healthzBindAddress": NODE_ADDRESS,
            # Only this machine and its pods reach the node.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "clusterDNS": [NODE_ADDRESS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "enforceNodeAllocatable": [],
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "failCgroupV1": False,  # where the machine has the older version, which kubelets still know
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "podLogsDir": str(self._folder / "logs"),
            "registerNode": True,
            "resolvConf": "",
            "serializeImagePulls": False,
            "volumePluginDir": str(self._folder / "plugins"),
        }

    def _kube_proxy_configuration(self) -> dict[str, object]:
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": NODE_ADDRESS,
            "clientConnection": {"kubeconfig": str(self._kubeconfig)},
            "clusterCIDR": POD_CIDR,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "hostnameOverride": NODE_NAME,
            "mode": "iptables",
        }

    def _spawn(self, name: str, program: Path, *flags: str | Path) -> None:
        command = self._machine.command(program, *flags)
        log = self._folder / f"{name}.log"
        self._processes[name] = spawn(command, log, env=self._environment, start_new_session=True)

    def _engine_answers(self) -> bool:
        try:
            self._machine.run(*_ctr(), "version")
        except MachineError:
            return False
        return True

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        if not becomes_ready(self._processes[name], ready, START_SECONDS):
            raise MachineError(f"{name} does not get ready; its log ends:\n{tail(self._folder / f'{name}.log')}")


CNI = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": POD_CIDR}]], "routes": [{"dst": "0.0.0.0/0"}]},
        },
        {"type": "loopback"},
    ],
}


def load_image(machine: Machine, archive: Path) -> None:
    """Give the node of a machine an image (an archive as `docker save` writes them). Raises MachineError."""
    machine.run(*_ctr(), "images", "import", archive)


def name_by_digest(machine: Machine, image: str) -> str:
    """Name an image of the node by its digest, like an image pulled from a registry. Raises MachineError."""
    _, line = machine.run(*_ctr(), "images", "list", f"name=={image}").splitlines()
    pinned = f"{image.rpartition(':')[0]}@{line.split()[2]}"
    machine.run(*_ctr(), "images", "tag", "--force", image, pinned)
    return pinned


def require_no_other() -> None:
    """Raises MachineError if another kubelet runs on this machine; what one left that was killed is removed."""
    runs = any(process.info["name"] == "kubelet" for process in psutil.process_iter(["name"]))
    if _cgroups() and (runs or not remove_cgroups(_cgroups())):
        raise MachineError("control groups named kubepods are in /sys/fs/cgroup: another kubelet runs on this machine")


def read_sysctls() -> dict[str, str]:
    """Return settings that a kubelet will overwrite for the whole machine, namespaces or not, to be restored."""
    return {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}


def remove_traces(sysctls: Mapping[str, str]) -> None:
    """Put back and remove what a node leaves outside of its namespaces; to be called when its machine has stopped.

    Raises MachineError when control groups are still in use.
    """
    for name, value in sysctls.items():
        path = Path("/proc/sys", name)
        if path.read_text() != value:
            path.write_text(value)
    # The kernel lets go of a dead process's group a moment later.
    if not comes_true(lambda: remove_cgroups(_cgroups()), STOP_SECONDS):
        raise MachineError("control groups named kubepods in /sys/fs/cgroup are still in use")


def _cgroups() -> list[Path]:
    root = Path("/sys/fs/cgroup")
    return [*root.glob("*/kubepods"), *root.glob("kubepods")]  # version 1 has a hierarchy for each controller


def _ctr() -> list[str | Path]:
    return [gobuild.find("ctr"), f"--address={SOCKET}", "--namespace=k8s.io"]
