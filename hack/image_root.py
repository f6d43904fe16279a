"""Create the root folder of the operator's image, with only the interpreter and the libraries that it loads.

The Dockerfile runs this program in its first stage. The last stage contains only the files that this program has
copied. So the image contains no shell, no package manager and no tools of the base image. Scanners need the names of
the libraries' packages. So for each Debian package of which a file is copied, the program also copies the package's
entry in the status of dpkg.

    python hack/image_root.py ENVIRONMENT ROOT

ENVIRONMENT is a virtual environment with the operator in it; its own files are copied by the Dockerfile. Needs nothing
but the standard library, and neither a shell nor ldd.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from py_compile import PycInvalidationMode

NOT_IMPORTED = (
    "__phello__", "curses", "dbm", "ensurepip", "idlelib", "lib2to3", "macholib", "pydoc_data", "site-packages",
    "sqlite3", "test", "tests", "tkinter", "turtledemo", "venv",
)  # fmt: skip
"""Folders of the standard library that no server imports; one of them is the package installer's own copy."""

INTERACTIVE = (
    "_ctypes_test", "_curses", "_dbm", "_gdbm", "_sqlite3", "_test", "_tkinter", "_xxtestfuzz", "nis", "readline",
    "xxlimited",
)  # fmt: skip
"""How the extension modules begin that bring a window system, a terminal or a database with them."""

ROOMS_OF_OTHERS = ("cli", "launcher", "local", "notebook", "pipeline", "progress", "report", "sdk", "ui")
"""Packages of tfoperator that its process never imports (setup.cfg's contract `lean-operator`)."""

# glibc opens these when they are needed: a thread ends early; names are looked up (before glibc 2.34).
LOADED_LATER = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/ssl/certs/ca-certificates.crt", "/etc/os-release")
USER = 65532
_UNCHECKED = PycInvalidationMode.UNCHECKED_HASH


def lay_out(environment: Path, root: Path) -> None:
    """Copy the files that the interpreter of `environment` needs into `root`; remove other files from `environment`."""
    interpreter = Path(sys.executable).resolve()
    prune(environment)
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    for folder in libraries:
        shutil.copytree(folder, _in(root, folder), symlinks=True, ignore=_ignored, dirs_exist_ok=True)
    extensions = [*_in(root, Path(sysconfig.get_path("platstdlib"))).rglob("*.so"), *environment.rglob("*.so")]
    loaded = shared_libraries([interpreter, *extensions])
    system = [path for path in map(Path, SYSTEM_FILES) if path.is_file()]
    for path in [interpreter, *loaded, *system]:
        target = _in(root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)  # the file itself where `path` is a link
    for script in root.rglob("*.py"):
        script.chmod(0o644)  # some can be started, where there is an `env`
    for folder in libraries:
        # The base image has no bytecode files, and the root of the image is read-only. Without this call, each start
        # would compile the modules again.
        compileall.compile_dir(_in(root, folder), quiet=1, stripdir=str(root), invalidation_mode=_UNCHECKED)
    _copy_package_status([interpreter, *loaded], root)
    _write(root / "etc/passwd", f"nonroot:x:{USER}:{USER}:nonroot:/tmp:/nonexistent\n")
    _write(root / "etc/group", f"nonroot:x:{USER}:\n")
    _write(root / "etc/nsswitch.conf", "hosts: files dns\n")
    (root / "tmp").mkdir(mode=0o1777)
    (root / "tmp").chmod(0o1777)


def prune(environment: Path) -> None:
    """Take all programs but the interpreter, and packages that the operator never imports, out of an environment."""
    for path in (environment / "bin").iterdir():
        path.unlink()
    (environment / "bin/python").symlink_to(Path(sys.executable).resolve())
    for packages in environment.glob("lib/python*/site-packages"):
        unwanted = [packages / "kubernetes/aio", *(packages / "tfoperator" / room for room in ROOMS_OF_OTHERS)]
        for folder in unwanted:
            shutil.rmtree(folder, ignore_errors=True)


def shared_libraries(files: Iterable[Path]) -> list[Path]:
    """The shared libraries that these load, by the paths under which they are found, the loader itself among them."""
    output = _output_of([str(Path(sys.executable).resolve())], {"LD_TRACE_LOADED_OBJECTS": "1"})
    loader = next(line.split()[0] for line in output.splitlines() if line.strip().startswith("/"))
    libraries = {Path(loader)}
    for file in files:
        listed = _output_of([loader, "--list", str(file)], {})
        libraries |= {Path(line.split("=>")[1].split()[0]) for line in listed.splitlines() if "=> /" in line}
    folders = {path.parent for path in libraries if path.name == "libc.so.6"}
    libraries |= {folder / name for folder in folders for name in LOADED_LATER if (folder / name).exists()}
    return sorted(path for path in libraries if "/site-packages/" not in str(path))


def _output_of(command: list[str], env: dict[str, str]) -> str:
    return subprocess.run(command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, check=False).stdout


def _copy_package_status(files: Iterable[Path], root: Path) -> None:
    """Into status.d, as in images that are known for having no package manager, where scanners look."""
    wanted = {_merged(path) for path in files} | {_merged(path.resolve()) for path in files}
    owners = {
        listed.stem.partition(":")[0]
        for listed in Path("/var/lib/dpkg/info").glob("*.list")
        if not wanted.isdisjoint(map(_merged, map(Path, listed.read_text().splitlines())))
    }
    status = Path("/var/lib/dpkg/status")
    for entry in status.read_text().split("\n\n") if owners else ():
        name = entry.strip().partition("\n")[0].removeprefix("Package: ")
        if name in owners:
            _write(root / "var/lib/dpkg/status.d" / name, f"{entry.strip()}\n")


def _merged(path: Path) -> str:
    """A path as it is where /lib is a link to /usr/lib."""
    return str(path).removeprefix("/usr")


def _in(root: Path, path: Path) -> Path:
    return root / str(path).lstrip("/")


def _ignored(_folder: str, names: list[str]) -> list[str]:
    return [
        name
        for name in names
        if name in NOT_IMPORTED
        or name.endswith(".a")
        or name.startswith("config-")
        or (name.endswith(".so") and name.startswith(INTERACTIVE))
    ]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]), Path(sys.argv[2]))
