"""Container images without an engine: archives in Docker's format, made from files of this machine.

There is no registry to pull from, and an image for a test needs little: a static busybox, or a few programs with the
libraries that they load. `docker load` and `ctr images import` read what this writes.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

APPLETS = ("sh", "sleep", "cat", "echo", "ls", "wget", "nslookup", "nc", "true", "false", "env", "date", "id", "kill")
"""The names of busybox in the images made here, most of all for people who look into a pod."""

UNWANTED = {"__pycache__", "idlelib", "site-packages", "test", "tests", "tkinter", "turtledemo"}
"""Folders of a Python installation that no program in an image imports."""


def write_image(
    target: Path,
    name: str,
    files: Mapping[str, Path | bytes | str],
    *,
    command: Sequence[str] = (),
    entrypoint: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    user: str = "",
    workdir: str = "/",
) -> Path:
    """Write an image archive of one layer. Returns `target`.

    `files` maps a path in the image to a file or folder of this machine, to a file's content, or to the target of a
    symbolic link (a string). `name` is full ("docker.io/local/pause:1"): tools disagree on what a short one means.
    """
    layer = _layer(files)
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Cmd": list(command),
            "Entrypoint": list(entrypoint),
            "Env": [f"{key}={value}" for key, value in ({"PATH": "/usr/bin:/bin"} | dict(env or {})).items()],
            "User": user,
            "WorkingDir": workdir,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        for member, content in (
            ("layer.tar", layer),
            ("config.json", _json(config)),
            ("manifest.json", _json(manifest)),
        ):
            _add_bytes(archive, member, content, 0o644)
    return target


def busybox(program: Path) -> dict[str, Path | bytes | str]:
    """The files of a minimal user land: a static busybox under its usual names, and a folder for temporary files."""
    links: dict[str, Path | bytes | str] = {f"bin/{applet}": "busybox" for applet in APPLETS}
    accounts = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
    return {"bin/busybox": program, **links, "etc/passwd": accounts, "etc/group": b"root:x:0:\nnogroup:x:65534:\n"}


def python() -> dict[str, Path | bytes | str]:
    """The files of this very interpreter, at the same paths, with the libraries that it and its extensions load.

    It is what a `python:3-slim` image is for, pip and venv included, without a registry. The extension modules of
    wheels find the libraries of C++ in it.
    """
    interpreter = Path(sys.executable).resolve()
    libraries = [Path(sysconfig.get_path(name, vars=_BASE)) for name in ("stdlib", "platstdlib")]
    files: dict[str, Path | bytes | str] = {str(folder).lstrip("/"): folder for folder in libraries}
    loaded = programs(interpreter, *(libraries[1] / "lib-dynload").glob("*.so"))
    files |= {path: file for path, file in loaded.items() if not any(map(Path("/", path).is_relative_to, libraries))}
    for name in ("python", "python3"):
        files[f"usr/bin/{name}"] = str(interpreter)
    return files


_BASE = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_base": sys.base_prefix}


def programs(*files: Path) -> dict[str, Path | bytes | str]:
    """Programs of this machine at the same paths, with the libraries that they and wheels for Linux load."""
    # Libraries that such wheels may expect of a system beside those that Python itself needs (PEP 513).
    extra = ["libstdc++.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"]
    output = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    cached = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    named = [
        line.split("=>")[-1].split()[0] for line in output.splitlines() if ".so" in line and not line.endswith(":")
    ]
    wanted = [
        line.split("=>")[-1].strip() for line in cached.splitlines() if line.split()[:1] and line.split()[0] in extra
    ]
    paths = {Path(path) for path in [*named, *wanted] if path.startswith("/")} | set(files)
    return {str(path).lstrip("/"): path for path in sorted(paths)}


def _layer(files: Mapping[str, Path | bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        temporary = tarfile.TarInfo("tmp")
        temporary.type, temporary.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(temporary)
        for path, source in sorted(files.items()):
            if isinstance(source, Path):
                tar.add(source.resolve(), arcname=path, filter=_as_root)
            elif isinstance(source, bytes):
                _add_bytes(tar, path, source, 0o755)
            else:
                link = tarfile.TarInfo(path)
                link.type, link.linkname = tarfile.SYMTYPE, source
                tar.addfile(link)
    return buffer.getvalue()


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if UNWANTED.intersection(Path(member.name).parts[-2:]) or member.name.endswith(".a"):
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
