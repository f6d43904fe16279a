"""Which GPUs CUDA shows to a process: the container's own, and no other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_NONE = "-1"
"""An index that is none: CUDA shows the devices before the first invalid one. An empty value means the same to CUDA,
but some programs take it for an unset one."""


def visible_devices(own: Sequence[str], asked: str | None = None) -> str:
    """The value of CUDA_VISIBLE_DEVICES for a container with these devices, given by UUID, since CUDA counts otherwise
    than NVML does where devices differ.

    `asked` is what the manifest says. As in a cluster, its indexes count the container's own devices, and nothing in
    it leads to any other.
    """
    if asked is None:
        return ",".join(own) or _NONE
    chosen: list[str] = []
    for part in (part.strip() for part in asked.split(",")):
        if part.isascii() and part.isdigit() and len(part) < 4 and int(part) < len(own):
            device = own[int(part)]
        else:
            matching = [one for one in own if part.startswith("GPU-") and one.startswith(part)]
            if len(matching) != 1:
                break
            device = matching[0]
        if device in chosen:
            break
        chosen.append(device)
    return ",".join(chosen) or _NONE
