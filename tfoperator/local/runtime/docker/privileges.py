"""What of a pod gives its containers power over this machine. Pure.

The engine grants all of it, as root, to whoever may talk to it. So a manifest gets it only where the user has said so.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfoperator.kube.pod_spec import Container, SecurityContext
from tfoperator.local.runtime.pods import LocalPod
from tfoperator.local.runtime.protocol import LaunchError

FLAG = "--allow-privileged"
"""The option of `tfoperator run` and `local up`."""

_USUAL = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
"""The capabilities that the engine gives to every container."""


def check_privileges(pod: LocalPod, container: Container) -> None:
    """Raise LaunchError, which names the fields and the option, if the container wants more than a sandbox."""
    if wanted := list(_privileges(pod, container)):
        raise LaunchError(
            f"container {container.name!r} would have power over this machine: {', '.join(wanted)}. If you trust the "
            f"manifest as you trust a program that you run as root: {FLAG}",
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
    if more := [name for name in added if name.upper().removeprefix("CAP_") not in _USUAL]:
        yield f"securityContext.capabilities.add {', '.join(more)}"
