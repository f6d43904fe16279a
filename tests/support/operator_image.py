"""The operator's image, made by the Dockerfile itself on a real engine that has neither registry nor internet.

The base image holds this machine's Python. The stage that builds starts from the same with the wheels of the pinned
requirements in it, for pip to find them there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import docker

from hack import debian, images, node
from hack.docker_engine import DockerEngine

ROOT = Path(__file__).parents[2]
IMAGE = "tfoperator:0.1.0"
BASE_IMAGE = "local/python:1"
BUILD_IMAGE = "local/python-with-wheels:1"


def operator_image(archive: Path) -> Path:
    """Build the image and write it as `docker save` does. The engine is there for this alone."""
    with tempfile.TemporaryDirectory(prefix="tfo-docker-", ignore_cleanup_errors=True) as folder:
        engine = DockerEngine(Path(folder) / "engine")
        engine.start()
        try:
            wheels = Path(folder) / "wheels"
            _download(wheels)
            files = images.python() | images.busybox(debian.unpack(node.PACKAGES) / "bin/busybox")
            offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
            engine.load(BASE_IMAGE, files)
            engine.load(BUILD_IMAGE, {**files, "wheels": wheels}, env=offline)
            _build(engine.url)
            client = docker.DockerClient(base_url=engine.url, timeout=120)
            try:
                with archive.open("wb") as file:
                    file.writelines(client.images.get(IMAGE).save(named=True))
            finally:
                client.close()
        finally:
            engine.stop()
    return archive


def _build(url: str) -> None:
    client = docker.DockerClient(base_url=url, timeout=300)
    arguments = {"BASE": BASE_IMAGE, "BUILD_BASE": BUILD_IMAGE}
    try:
        client.images.build(path=str(ROOT), tag=IMAGE, buildargs=arguments, network_mode="none", rm=True, pull=False)
    except docker.errors.BuildError as error:
        said = "".join(str(line.get("stream", "")) for line in error.build_log)
        raise AssertionError(f"{error}\n{said}") from error
    finally:
        client.close()


def _download(folder: Path) -> None:
    """The wheels that the Dockerfile asks for, and what builds our own."""
    [wanted] = re.findall(r"-c constraints\.txt \\\n\s+(.+) \\\n", (ROOT / "Dockerfile").read_text())
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--dest={folder}"]
    subprocess.run([*pip, "-c", "constraints.txt", *wanted.split(), "setuptools"], cwd=ROOT, timeout=300, check=True)
