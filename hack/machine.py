"""A machine within this machine: Linux namespaces that hold a node's processes, mounts, interfaces and firewall rules.

A kubelet and a container engine change the machine on which they run (mounts, bridges, iptables rules, daemons that
continue after their parents have ended). Here, all these changes are in separate namespaces. `stop()` kills one
process, and then the namespaces and the changes end. A pair of virtual interfaces connects this machine with the
namespaces, so only this machine can reach the node, its pods and its services.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hack.processes import comes_true

LINK = "tfo-node"
HOST_ADDRESS = "198.18.0.1"  # 198.18.0.0/15 is reserved for tests of networks (RFC 2544): real networks don't use it
NODE_ADDRESS = "198.18.0.2"
POD_CIDR = "198.18.1.0/24"
SERVICE_CIDR = "198.18.16.0/20"
START_SECONDS = 60.0
STOP_SECONDS = 20.0
NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc")

# The first process of a PID namespace inherits its orphans, and only this process can reap them.
INIT = """
import os, signal
signal.signal(signal.SIGCHLD, lambda *_: None)
while True:
    try:
        os.wait()
    except ChildProcessError:
        signal.pause()
"""


class MachineError(Exception):
    """The namespaces or the link can't be made; the message names the reason."""


@dataclass(frozen=True)
class Machine:
    """One set of namespaces, held by a process (`pid`, of this machine) that ends when it gets a signal."""

    pid: int
    init_pid: int
    """The first process inside, by its number outside."""
    keeper: subprocess.Popen[bytes] | None = None
    """The process that holds it, in the process that started it."""

    @classmethod
    def start(cls, hostname: str) -> Machine:
        """Make the namespaces and the link. Needs Linux and root. Raises MachineError."""
        require_root()
        if Path("/sys/class/net", LINK).exists():
            raise MachineError("a node is running already: `python hack/cluster.py down` stops it")
        command = ["unshare", *NAMESPACES, "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", INIT]
        null = subprocess.DEVNULL
        keeper = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)
        machine = cls(keeper.pid, _await_init(keeper), keeper)
        try:
            machine._link(hostname)
        except BaseException:
            machine.stop()
            raise
        return machine

    def stop(self) -> None:
        """End every process in it; mounts, interfaces and rules go with the namespaces. Idempotent."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        if self.keeper is not None:
            self.keeper.wait(STOP_SECONDS)
        traces = (Path("/sys/class/net", LINK), Path("/proc", str(self.init_pid)))
        if not comes_true(lambda: not any(trace.exists() for trace in traces), STOP_SECONDS):
            raise MachineError(f"the node's processes do not end (the first is {self.init_pid})")

    def command(self, *arguments: str | Path) -> list[str]:
        """The command that runs `arguments` inside."""
        return ["nsenter", f"--target={self.init_pid}", *NAMESPACES, "--", *map(str, arguments)]

    def run(self, *arguments: str | Path, environment: Mapping[str, str] | None = None, text: str = "") -> str:
        """Run a short command inside, `text` on its standard input; returns what it prints. Raises MachineError."""
        return _run(self.command(*arguments), environment, text)

    def _link(self, hostname: str) -> None:
        inside = f"{LINK}-in"
        _run(["ip", "link", "add", LINK, "type", "veth", "peer", "name", inside, "netns", str(self.init_pid)])
        _run(["ip", "address", "add", f"{HOST_ADDRESS}/30", "dev", LINK])
        _run(["ip", "link", "set", LINK, "up"])
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{NODE_ADDRESS}/30", "dev", inside)
        self.run("ip", "link", "set", inside, "up")
        self.run("ip", "route", "add", "default", "via", HOST_ADDRESS)
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self.run("hostname", hostname)
        for network in (POD_CIDR, SERVICE_CIDR):
            _run(["ip", "route", "add", network, "via", NODE_ADDRESS])


def _await_init(keeper: subprocess.Popen[bytes]) -> int:
    children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children")
    end = time.monotonic() + START_SECONDS
    while keeper.poll() is None and time.monotonic() < end:
        pids = children.read_text().split()
        # The child is still `unshare` until it has mounted its /proc and becomes INIT.
        if pids and Path(f"/proc/{pids[0]}/cmdline").read_bytes().startswith(os.fsencode(sys.executable)):
            return int(pids[0])
        time.sleep(0.02)
    keeper.kill()
    keeper.wait()
    raise MachineError("this machine does not let us make namespaces: try `unshare --mount --net --pid --fork true`")


def require_root() -> None:
    """Raises MachineError if this process can't make namespaces."""
    if not sys.platform.startswith("linux"):
        raise MachineError("a node needs Linux: namespaces and control groups hold its containers")
    if os.geteuid() != 0:
        raise MachineError("a node needs root: run this with sudo")


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None, text: str = "") -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    if done.returncode != 0:
        raise MachineError(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout
