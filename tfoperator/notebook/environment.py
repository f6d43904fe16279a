"""A Python environment of one run: what this process can import, and some packages more.

The user's own environment stays as it is: pip installs into the new one, and takes from ours what is good enough.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

_TIMEOUT = 1800.0  # seconds that pip may take


class EnvironmentFailed(Exception):
    """The packages can't be installed; the message has pip's last words."""


def make_environment(folder: Path, packages: Sequence[str], *, index_url: str | None = None) -> Path:
    """Make an environment with these packages, as pip names them; returns the path of its Python.

    Raises EnvironmentFailed.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site_packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # Behind the packages of its own, so that those go first. Ours may be an environment itself, hence not
    # system_site_packages, which would be those of the Python that it was made from.
    ours = [path for path in sys.path if path and Path(path).is_dir() and "site-packages" in Path(path).parts]
    (site_packages / "tfoperator-parent.pth").write_text("".join(f"{path}\n" for path in ours))
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    if index_url is not None:
        command += ["--index-url", index_url]
    try:
        done = subprocess.run(
            [*command, "--", *packages],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(f"pip took more than {_TIMEOUT:.0f} s to install {', '.join(packages)}") from None
    if done.returncode:
        words = "\n".join((done.stderr or done.stdout).strip().splitlines()[-10:])
        raise EnvironmentFailed(f"can't install {', '.join(packages)}:\n{words}")
    return python


def variables(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """What programs of the environment need, so that the programs that they start find it, too."""
    return {
        "VIRTUAL_ENV": str(python.parent.parent),
        "PATH": os.pathsep.join([str(python.parent), environ.get("PATH", os.defpath)]),
    }
