"""What a container gets from this machine in place of its image: an environment, programs by name, and GPUs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfoperator.local.runtime.protocol import LaunchError


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What containers inherit: this machine's environment, our interpreter first on PATH, output not held back."""
    base = {name: value for name, value in environ.items() if name not in ("TF_CONFIG", "KUBECONFIG")}
    interpreter = str(Path(sys.executable).parent)
    others = [part for part in base.get("PATH", os.defpath).split(os.pathsep) if part != interpreter]
    base["PATH"] = os.pathsep.join([interpreter, *others])
    base.setdefault("PYTHONUNBUFFERED", "1")  # else the log of a Python program comes in blocks of 8 KiB
    return base


def find_program(name: str, environment: Mapping[str, str], directory: Path) -> str:
    """The program's path. Raises LaunchError in words: what Popen says of a missing file or directory is ambiguous."""
    if os.sep in name:
        path = directory / name
        if not path.exists():
            raise LaunchError(f"{name!r} does not exist (in {directory})")
        if not os.access(path, os.X_OK):
            raise LaunchError(f"{name!r} is not executable", 126)
        return str(path)
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found is None and name in ("python", "python3"):
        found = sys.executable
    if found is None and name == "tensorboard":
        raise LaunchError("TensorBoard is not installed on this machine; to have it: pip install tensorboard")
    if found is None:
        raise LaunchError(f"program {name!r} not found on PATH ({environment.get('PATH', os.defpath)})")
    return found


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
    return ",".join(own[position] for position in shown_devices(own, range(len(own)), asked)) or _NONE


def shown_devices(uuids: Sequence[str], indexes: Sequence[int], value: str) -> list[int]:
    """The positions of the devices that CUDA shows with this value of CUDA_VISIBLE_DEVICES, in its order.

    As CUDA reads it: indexes, or UUIDs or the unique beginnings of such; what comes after the first invalid one
    (`-1`, say) is not seen.
    """
    shown: list[int] = []
    for part in (part.strip() for part in value.split(",")):
        if part.isascii() and part.isdigit() and len(part) < 4:
            matching = [position for position, index in enumerate(indexes) if index == int(part)]
        else:
            matching = [position for position, uuid in enumerate(uuids) if part[:4] == "GPU-" and uuid.startswith(part)]
        if len(matching) != 1 or matching[0] in shown:
            break
        shown += matching
    return shown
