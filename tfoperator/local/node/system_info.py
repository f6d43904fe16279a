"""The data of this machine in the format in which a kubelet reports its node: labels, `nodeInfo` and conditions."""

from __future__ import annotations

import platform
from pathlib import Path

from tfoperator import __version__
from tfoperator.api.replicas.names import EMBEDDED_RELEASE

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Go's names of architectures, by the names that `uname -m` prints. Labels and image names use Go's names."""
_HEALTHY = (
    ("MemoryPressure", "False", "AgentHasSufficientMemory"),
    ("DiskPressure", "False", "AgentHasNoDiskPressure"),
    ("PIDPressure", "False", "AgentHasSufficientPID"),
)


def node_info() -> dict[str, str]:
    """Return the node's `nodeInfo`. A field is "" if this machine does not have the value, for example a machine ID."""
    return {
        "architecture": _architecture(),
        "bootID": _first_line("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": f"tfoperator://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": EMBEDDED_RELEASE,
        "machineID": _first_line("/etc/machine-id"),
        "operatingSystem": platform.system().lower(),
        "osImage": _os_name(),
        "systemUUID": "",
    }


def node_labels(name: str) -> dict[str, str]:
    """Return the labels that each kubelet gives to its node."""
    return {
        "kubernetes.io/arch": _architecture(),
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": platform.system().lower(),
    }


def node_conditions(now: str) -> list[dict[str, str]]:
    """Return the conditions of a running node.

    The conditions of pressure (`MemoryPressure`, for example) are always False: the agent does not measure pressure,
    and never evicts pods.
    """
    conditions = (*_HEALTHY, ("Ready", "True", "AgentReady"))
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    message = "the node agent runs"
    return [
        {"type": kind, "status": status, "reason": reason, "message": message, **times}
        for kind, status, reason in conditions
    ]


def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)
