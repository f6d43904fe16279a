"""The operator's image, made by the Dockerfile itself on a real engine that has neither registry nor internet.

The base image holds this machine's Python, and its package manager's records of the libraries. The stage that builds
starts from the same with the wheels of the locked requirements in it, for pip to find them there.
"""

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import docker

from hack import debian, images
from hack.docker_engine import running_engine

ROOT = Path(__file__).parents[2]
IMAGE = "tfoperator:0.1.0"
BASE_IMAGE = "local/python:1"
BUILD_IMAGE = "local/python-with-wheels:1"
PACKAGES = ("libc6", "libffi", "libgcc", "libssl", "zlib1g")
"""Debian packages of which Python loads libraries."""


def operator_image(archive: Path) -> Path:
    """Build the image and write it as `docker save` does. The engine is there for this alone."""
    with running_engine() as engine, tempfile.TemporaryDirectory(prefix="tfo-wheels-") as folder:
        wheels = Path(folder)
        _download(wheels)
        files = images.python() | images.busybox(debian.find(debian.NODE) / "bin/busybox") | _package_status()
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
        engine.load(BASE_IMAGE, files)
        engine.load(BUILD_IMAGE, {**files, "wheels": wheels}, env=offline)
        with closing(docker.DockerClient(base_url=engine.url, timeout=300)) as client:
            _build(client)
            with archive.open("wb") as file:
                file.writelines(client.images.get(IMAGE).save(named=True))
    return archive


def _build(client: docker.DockerClient) -> None:
    arguments = {"BASE": BASE_IMAGE, "BUILD_BASE": BUILD_IMAGE}
    try:
        client.images.build(path=str(ROOT), tag=IMAGE, buildargs=arguments, network_mode="none", rm=True, pull=False)
    except docker.errors.BuildError as error:
        output = "".join(str(line.get("stream", "")) for line in error.build_log)
        raise AssertionError(f"{error}\n{output}") from error


def _download(folder: Path) -> None:
    """Download the wheels that the Dockerfile installs, each with its hash from a lock."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--no-deps", f"--dest={folder}"]
    for lock in ("build", "operator"):
        command = [*pip, "--require-hashes", "-r", f"requirements/{lock}.lock"]
        subprocess.run(command, cwd=ROOT, timeout=300, check=True)


def _package_status() -> dict[str, Path | bytes | str]:
    """Return the records of this machine's dpkg about the C library and its like, at the same paths."""
    status = Path("/var/lib/dpkg")
    lists = [path for path in (status / "info").glob("*.list") if path.name.startswith(PACKAGES)]
    return {str(path).lstrip("/"): path for path in [status / "status", *lists]}
