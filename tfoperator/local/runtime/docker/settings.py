"""The arguments of docker-py's `create_container` for a pod's container. Pure.

The engine runs as root. The engine grants every right that these arguments request, even a right that gives a container
power over this machine. So a manifest that requests such a right is refused, unless the user has set
`--allow-privileged`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from docker.types import DeviceRequest, LogConfig, Mount

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.kube.views.pod_spec import GPU, Container, ResourceRequirements, SecurityContext
from tfoperator.local.runtime.protocol import ContainerStart, LaunchError, LocalPod

PIDS = 4096
"""The maximum number of processes and threads of a container. Clusters commonly have such a limit for a pod. The limit
stops a fork bomb.
"""
NO_NEW_PRIVILEGES = "no-new-privileges"
"""The security option that keeps programs from gaining rights by set-uid."""
_MIN_MEMORY = 6 << 20  # bytes; Docker rejects less
_NANO_CPUS = 10**9  # Docker's unit of a CPU: nanoseconds of CPU time per second


def container_settings(run: ContainerStart, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of `create_container`, except the host config.

    A `command` replaces the image's entry point and arguments. `args` replaces only the image's arguments.
    """
    settings: dict[str, Any] = {
        "image": run.container.image,
        "environment": [f"{name}={value}" for name, value in run.environment.items()],
        "labels": dict(labels),
        "detach": True,
    }
    if run.command:
        settings["entrypoint"] = list(run.command)
    elif run.args:
        settings["command"] = list(run.args)
    if run.container.working_dir:
        settings["working_dir"] = run.container.working_dir
    user = _user(run.container.security_context, run.pod.spec.security_context)
    if user:
        settings["user"] = user
    return settings


def host_settings(
    run: ContainerStart, sandbox: str, cpus: int, *, init: bool = True, gpus: bool = True
) -> dict[str, Any]:
    """Return the host config: limits, mounts, rights, and the sandbox. Raises LaunchError if a limit is not valid.

    The container shares the network and the IPC namespace of the container `sandbox`. `cpus` is the engine's number of
    CPUs. A higher CPU limit is reduced to this number, because Docker would reject this limit. Kubernetes accepts it.

    With `init`, the first process is Docker's init process, which forwards signals. Otherwise the program is the first
    process. If the program then has no handler for SIGTERM, it ignores this signal, and a stop takes the whole grace
    period.

    `gpus` is False if the engine has no GPUs: then no GPUs are requested for the container. Settings that are not named
    here have the engine's defaults, for example its seccomp profile and its capabilities.
    """
    context = run.container.security_context or SecurityContext()
    pod_context = run.pod.spec.security_context or SecurityContext()
    groups = [*(pod_context.supplemental_groups or ())]
    if pod_context.fs_group is not None:
        groups.append(pod_context.fs_group)
    settings: dict[str, Any] = {
        "network_mode": f"container:{sandbox}",
        "ipc_mode": f"container:{sandbox}",
        "mounts": [
            Mount(target=mount.mount_path, source=str(mount.source), type="bind", read_only=mount.read_only)
            for mount in run.mounts
        ],
        "init": init,
        "pids_limit": PIDS,
        "log_config": LogConfig(type=LogConfig.types.JSON, config={"max-size": "64m", "max-file": "2"}),
        "group_add": groups or None,
        "privileged": bool(context.privileged),
        "read_only": bool(context.read_only_root_filesystem),
        **_limits(run.container, cpus),
        **(_gpus(run) if gpus else {}),
    }
    if context.allow_privilege_escalation is not True and not context.privileged:
        settings["security_opt"] = [NO_NEW_PRIVILEGES]
    if context.capabilities is not None:
        settings["cap_add"] = list(context.capabilities.add) or None
        settings["cap_drop"] = list(context.capabilities.drop) or None
    return settings


def published_ports(pod: LocalPod) -> tuple[list[tuple[int, str]], dict[str, tuple[str, int]]]:
    """Return the ports that the sandbox exposes, and the `hostPort`s that it publishes.

    Only container ports with a `hostPort` are returned. The second value maps a container port such as `80/tcp` to the
    address and the port of this machine. A port without a `hostIP` is published on loopback.
    """
    exposed: list[tuple[int, str]] = []
    published: dict[str, tuple[str, int]] = {}
    for container in pod.spec.containers:
        for port in container.ports or ():
            if port.host_port:
                protocol = port.protocol.lower()
                exposed.append((port.container_port, protocol))
                published[f"{port.container_port}/{protocol}"] = (port.host_ip or "127.0.0.1", port.host_port)
    return exposed, published


def _user(context: SecurityContext | None, pod_context: SecurityContext | None) -> str:
    both = [of_level for of_level in (context, pod_context) if of_level is not None]
    user = next((of_level.run_as_user for of_level in both if of_level.run_as_user is not None), None)
    group = next((of_level.run_as_group for of_level in both if of_level.run_as_group is not None), None)
    if user is None:
        return "" if group is None else f"0:{group}"
    return str(user) if group is None else f"{user}:{group}"


def _limits(container: Container, cpus: int) -> dict[str, Any]:
    resources = container.resources or ResourceRequirements()
    limits, requests = resources.limits or {}, resources.requests or {}
    settings: dict[str, Any] = {}
    try:
        if "memory" in limits:
            memory = max(int(parse_quantity(limits["memory"])), _MIN_MEMORY)
            # The container gets no swap, as in Kubernetes.
            settings |= {"mem_limit": memory, "memswap_limit": memory}
        if "cpu" in limits:
            settings["nano_cpus"] = int(min(parse_quantity(limits["cpu"]), Fraction(cpus)) * _NANO_CPUS)
        cpu = requests.get("cpu", limits.get("cpu"))
        if cpu is not None:
            settings["cpu_shares"] = max(2, int(parse_quantity(cpu) * 1024))
    except ValueError as error:
        raise LaunchError(f"container {container.name!r}: resources: {error}") from None
    return settings


def _gpus(run: ContainerStart) -> dict[str, Any]:
    """Return the arguments that give the container the GPUs that were allocated to it.

    If the GPUs of the container are not known, request as many of the engine's GPUs as the container requests.
    """
    if run.gpus:
        return {"device_requests": [DeviceRequest(device_ids=list(run.gpus), capabilities=[["gpu"]])]}
    limits = (run.container.resources or ResourceRequirements()).limits or {}
    if run.gpus is not None or GPU not in limits:
        return {}
    try:
        count = int(parse_quantity(limits[GPU]))
    except ValueError as error:
        raise LaunchError(f"container {run.container.name!r}: resources: {error}") from None
    return {"device_requests": [DeviceRequest(count=count, capabilities=[["gpu"]])]} if count else {}


FLAG = "--allow-privileged"
"""The option of `tfoperator run` and `local up` that allows the rights that `check_privileges` otherwise refuses."""

_DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
"""The capabilities that the engine grants to every container."""


def check_privileges(pod: LocalPod, container: Container) -> None:
    """Raise LaunchError if the container requests access to this machine.

    Examples are `hostNetwork`, a volume with `hostPath`, and `privileged`. The message names these fields and the
    option FLAG.
    """
    if wanted := list(_privileges(pod, container)):
        raise LaunchError(
            f"container {container.name!r} would have access to this machine: {', '.join(wanted)}. If you trust the "
            f"manifest as much as a program that you run as root, use {FLAG}",
            126,
        )


def _privileges(pod: LocalPod, container: Container) -> Iterator[str]:
    if pod.spec.host_network:
        yield "hostNetwork"
    for volume in pod.spec.volumes or ():
        if volume.host_path is not None:
            yield f"volume {volume.name!r} with hostPath {volume.host_path.path}"
    context = container.security_context or SecurityContext()
    if context.privileged:
        yield "securityContext.privileged"
    added = () if context.capabilities is None else context.capabilities.add
    if more := [name for name in added if name.upper().removeprefix("CAP_") not in _DEFAULT_CAPABILITIES]:
        yield f"securityContext.capabilities.add {', '.join(more)}"
