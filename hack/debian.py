"""Programs from Debian packages, unpacked beside the system instead of installed into it.

A test that needs a container engine must not change the machine that it runs on: `apt-get download` fetches packages
as apt is configured (and verifies them), `dpkg-deb` unpacks them into the cache, and `environment` names the folders
that programs look into. Packages are named one by one, with the libraries that they need: nothing resolves them.

Only commands unpack. Tests find: what is missing then is an error that names the command to run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from hack.gobuild import BUILD_COMMAND, cache_root, locked

DOWNLOAD_SECONDS = 300.0

DOCKER_ENGINE = (
    "busybox-static", "containerd", "docker.io", "iptables", "libip4tc2", "libip6tc2", "libmnl0",
    "libnetfilter-conntrack3", "libnfnetlink0", "libnftnl11", "libseccomp2", "libxtables12", "runc", "tini",
)  # fmt: skip
NODE = (
    "busybox-static", "containernetworking-plugins", "iptables", "libip4tc2", "libip6tc2", "libmnl0",
    "libnetfilter-conntrack3", "libnfnetlink0", "libnftnl11", "libseccomp2", "libxtables12", "runc",
)  # fmt: skip
POSTGRESQL = ("libicu72", "libldap-2.5-0", "libpq5", "libsasl2-2", "libxml2", "postgresql-15")
CHROMIUM = (
    "chromium-common", "chromium-headless-shell", "fonts-dejavu-core", "fonts-inter", "libasound2", "libasyncns0",
    "libatk1.0-0", "libatspi2.0-0", "libblkid1", "libbrotli1", "libbsd0", "libcap2", "libdav1d6", "libdbus-1-3",
    "libdouble-conversion3", "libdrm2", "libexpat1", "libffi8", "libflac12", "libfontconfig1", "libfreetype6",
    "libgbm1", "libgcrypt20", "libglib2.0-0", "libgpg-error0", "libgraphite2-3", "libharfbuzz-subset0",
    "libharfbuzz0b", "libjpeg62-turbo", "liblcms2-2", "liblz4-1", "liblzma5", "libmd0", "libminizip1", "libmount1",
    "libmp3lame0", "libmpg123-0", "libnspr4", "libnss3", "libogg0", "libopenh264-7", "libopenjp2-7", "libopus0",
    "libpcre2-8-0", "libpng16-16", "libpulse0", "libselinux1", "libsndfile1", "libsystemd0", "libudev1",
    "libvorbis0a", "libvorbisenc2", "libwayland-server0", "libx11-6", "libx11-xcb1", "libxau6", "libxcb1",
    "libxcomposite1", "libxdamage1", "libxdmcp6", "libxext6", "libxfixes3", "libxi6", "libxkbcommon0", "libxnvctrl0",
    "libxrandr2", "libxrender1", "libzstd1", "zlib1g",
)  # fmt: skip


class PackageError(Exception):
    """A package can't be had; the message names the reason and a remedy."""


def find(packages: Collection[str]) -> Path:
    """The root of a file tree that holds these packages and was made before.

    Raises PackageError, which names the command to run.
    """
    root = _root(packages)
    if not root.is_dir():
        raise PackageError(f"Debian's {_shown(packages)} are not unpacked; run: {BUILD_COMMAND}")
    return root


def unpack(packages: Collection[str]) -> Path:
    """Make what `find` finds, once. Safe to call from several processes at once. Raises PackageError."""
    root = _root(packages)
    with locked(root.with_suffix(".lock")):
        if not root.is_dir():
            print(f"unpacking Debian's {_shown(packages)} (once) ...", file=sys.stderr, flush=True)
            _fetch(sorted(packages), root)
    return root


def _shown(packages: Collection[str]) -> str:
    """Their names; of many, the first, which stand for what they are there for."""
    names = list(packages)
    return ", ".join(names) if len(names) < 20 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _root(packages: Collection[str]) -> Path:
    return cache_root() / "debian" / hashlib.sha256(" ".join(sorted(packages)).encode()).hexdigest()[:16]


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


def link_iptables(root: Path, folder: Path) -> None:
    """Link the programs of iptables into a folder: to the tree's variant that needs no nftables of the kernel's."""
    folder.mkdir(exist_ok=True)
    for family in ("iptables", "ip6tables"):
        for name in (family, f"{family}-save", f"{family}-restore"):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(root / "usr/sbin/xtables-legacy-multi")


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
