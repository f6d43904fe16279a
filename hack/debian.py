"""Programs from Debian packages, unpacked beside the system instead of installed into it.

A test that needs a container engine must not change the machine that it runs on: `apt-get download` fetches packages
as apt is configured (and verifies them), `dpkg-deb` unpacks them into the cache, and `environment` names the folders
that programs look into. Packages are named one by one, with the libraries that they need: nothing resolves them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from hack.gobuild import cache_root

DOWNLOAD_SECONDS = 300.0


class PackageError(Exception):
    """A package can't be had; the message says why and what to do."""


def unpack(packages: Iterable[str]) -> Path:
    """The root of a file tree that holds these packages; made once. Safe to call from several processes at once.

    Raises PackageError.
    """
    wanted = sorted(set(packages))
    root = cache_root() / "debian" / hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:16]
    root.parent.mkdir(parents=True, exist_ok=True)
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.is_dir():
            _fetch(wanted, root)
    return root


def environment(root: Path) -> dict[str, str]:
    """The environment of this process with the tree's programs and libraries in front."""
    libraries = [root / "usr/lib/x86_64-linux-gnu", root / "usr/lib/aarch64-linux-gnu", root / "usr/lib"]
    programs = [root / "usr/sbin", root / "usr/bin", root / "sbin", root / "bin"]
    return {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, programs), os.environ.get("PATH", "")]),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
        "XTABLES_LIBDIR": str(next((f for f in (x / "xtables" for x in libraries) if f.is_dir()), "")),
    }


def _fetch(packages: list[str], root: Path) -> None:
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise PackageError(f"{program} isn't there: {', '.join(packages)} come from Debian's packages")
    partial = root.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    with tempfile.TemporaryDirectory() as downloads:
        # The package lists of a fresh machine may be absent or out of date.
        if _apt(["download", *packages], downloads).returncode != 0:
            _apt(["update"], downloads)
            done = _apt(["download", *packages], downloads)
            if done.returncode != 0:
                raise PackageError(f"apt-get download {' '.join(packages)} failed:\n{done.stderr.strip()[-2000:]}")
        for package in sorted(Path(downloads).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, partial], check=True, stdin=subprocess.DEVNULL)
    partial.rename(root)


def _apt(arguments: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    command = ["apt-get", "--quiet", "-o", "APT::Sandbox::User=root", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=DOWNLOAD_SECONDS,
    )
