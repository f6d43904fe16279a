"""What a container gets from this machine in place of its image: an environment, and programs by name."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
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
