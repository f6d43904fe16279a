"""A pod's sandbox: the container that owns the pod's network.

The sandbox runs as long as the pod. So the pod keeps its address while its other containers start and end. Kubernetes
pulls a `pause` image for this purpose. Here the image is built on this machine, from a program of three instructions
that waits forever. So the runtime pulls no image from a registry for the sandbox.
"""

from __future__ import annotations

import io
import struct
import tarfile
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from docker.errors import ImageNotFound

from tfoperator.local.runtime.docker.engine import Engine
from tfoperator.local.runtime.docker.settings import NO_NEW_PRIVILEGES, published_ports
from tfoperator.local.runtime.protocol import LocalPod, RuntimeUnavailable, host_name

SANDBOX_IMAGE = "tfoperator/sandbox:1"

_PAUSE_CODE = {
    # loop: mov eax, 34 (pause); syscall; jmp loop
    "x86_64": (62, bytes.fromhex("b822000000 0f05 ebf7")),
    # loop: mov x0..x3, 0; mov x8, 73 (ppoll); svc 0; b loop
    "aarch64": (183, struct.pack("<7I", *range(0xD2800000, 0xD2800004), 0xD2800928, 0xD4000001, 0x17FFFFFA)),
}
_NO_RIGHTS: dict[str, Any] = {
    "cap_drop": ["ALL"],
    "security_opt": [NO_NEW_PRIVILEGES],
    "read_only": True,
    "pids_limit": 8,
}
"""The rights of the sandbox. The program of the sandbox only sleeps, and needs no rights for this."""
_LOAD_ADDRESS = 0x400000


@dataclass
class Sandbox:
    """A pod's sandbox.

    `lock` is held while the sandbox is created or removed. Each pod has its own sandbox and lock, so pods do not wait
    for each other.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)  # guards the fields below
    id: str = ""
    ip: str = ""
    unreachable: str = ""  # why its containers can't reach this process's service


def ensure_sandbox_image(engine: Engine) -> None:
    """Create the image of sandboxes if the engine doesn't have it.

    Raises RuntimeUnavailable if the engine's architecture is unknown.
    """
    try:
        engine.api.inspect_image(SANDBOX_IMAGE)
    except ImageNotFound:
        repository, _, tag = SANDBOX_IMAGE.partition(":")
        engine.api.import_image_from_data(_root_file_system(engine.architecture), repository=repository, tag=tag)


def names_of(pod: LocalPod, services: Collection[str]) -> list[str]:
    """Return all names by which other pods reach this pod, as in a cluster's DNS.

    `services` are the services that select the pod: the pod is reached by their names. If one of these services is the
    pod's `subdomain`, the pod is also reached by `hostname.subdomain`.
    """
    namespace, own = pod.metadata.namespace, pod.spec.hostname
    hosts = [f"{own}.{service}" for service in services if own and service == pod.spec.subdomain]
    suffixes = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    return [name + suffix for name in (*services, *hosts) for suffix in suffixes]


def sandbox_settings(
    api: Any,
    pod: LocalPod,
    network: str,
    services: Collection[str],
    labels: Mapping[str, str],
    hosts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the arguments of `create_container` for a pod's sandbox on `network`.

    `hosts` contains additional names for the pod's containers, and the addresses of these names.
    """
    common: dict[str, Any] = {"ipc_mode": "shareable", "extra_hosts": dict(hosts) if hosts else None, **_NO_RIGHTS}
    exposed, published = published_ports(pod)
    settings: dict[str, Any] = {
        "image": SANDBOX_IMAGE,
        "command": ["/pause"],
        "hostname": host_name(pod),
        "labels": dict(labels),
        "detach": True,
    }
    if pod.spec.host_network:
        host = api.create_host_config(network_mode="host", **common)
        del settings["hostname"]
        return {**settings, "host_config": host}
    if published:
        settings["ports"] = exposed
    names = names_of(pod, services)
    return {
        **settings,
        "host_config": api.create_host_config(network_mode=network, port_bindings=published, **common),
        "networking_config": api.create_networking_config({network: api.create_endpoint_config(aliases=names)}),
    }


def _root_file_system(architecture: str) -> bytes:
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture)
    if machine not in _PAUSE_CODE:
        raise RuntimeUnavailable(f"the Docker runtime supports x86_64 and aarch64, not {architecture}")
    program = _executable(*_PAUSE_CODE[machine])
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        member = tarfile.TarInfo("pause")
        member.size, member.mode = len(program), 0o755
        tar.addfile(member, io.BytesIO(program))
    return buffer.getvalue()


def _executable(machine: int, code: bytes) -> bytes:
    """Return a 64-bit ELF program that has one segment: file header, program header, code (elf(5))."""
    header_size, entry_size = 64, 56
    entry = _LOAD_ADDRESS + header_size + entry_size
    size = header_size + entry_size + len(code)
    identity = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)  # 64 bits, little endian, version 1
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", identity, 2, machine, 1, entry, header_size, 0, 0, header_size, entry_size, 1, 0, 0, 0
    )
    readable_and_executable = 5
    segment = struct.pack("<IIQQQQQQ", 1, readable_and_executable, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000)
    return header + segment + code
