"""The operator's image, as the Dockerfile makes it: what is in it, and what is not."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from hack.lock import FOLDER, canonical, versions
from tests.support.docker_engine import DockerEngine, docker_engine
from tests.support.image_contents import ImageContents, read_image
from tests.support.operator_image import IMAGE

__all__ = ["docker_engine"]

PROBE = """
import importlib.metadata, importlib.util, json, os, sys
import tfoperator.operator.__main__, tfoperator.servers.webhook.server, tfoperator.servers.progress.progress_server
import tfoperator.logs.archive.writer
import yaml
import kubernetes.config.kube_config, kubernetes.config.incluster_config
owners = importlib.metadata.packages_distributions()
def writes(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
    return "written"
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
    "writing": [writes(f"{folder}/new") for folder in ("", "/tmp", "/etc", sys.prefix, os.path.dirname(os.__file__))],
    "importable": [name for name in (
        "pip", "ensurepip", "setuptools", "aiohttp", "typer", "sqlite3", "readline", "tfoperator.cli",
        "tfoperator.launcher", "tfoperator.local", "tfoperator.sdk") if importlib.util.find_spec(name)],
    "imported": sorted({owner for name in list(sys.modules) for owner in owners.get(name.partition(".")[0], [])}),
}))
"""


@pytest.fixture(scope="module")
def contents(operator_archive: Path) -> ImageContents:
    return read_image(operator_archive)


@pytest.fixture(scope="module")
def engine(docker_engine: DockerEngine, operator_archive: Path) -> Iterator[docker.DockerClient]:
    """An engine that has the image."""
    with closing(docker.DockerClient(base_url=docker_engine.url, timeout=100)) as client:
        with operator_archive.open("rb") as stream:
            client.images.load(stream)
        yield client


def test_its_only_program_is_the_interpreter(contents: ImageContents) -> None:
    programs = contents.programs()
    print("programs:", *programs, sep="\n  ")
    interpreter = contents.links["opt/tfoperator/bin/python"].lstrip("/")
    loaders = [path for path in programs if Path(path).name.startswith("ld-linux")]
    assert programs == sorted([interpreter, *loaders])
    assert contents.privileged() == []


def test_its_modules_are_compiled(contents: ImageContents) -> None:
    """The folders are read-only, so without compiled modules each start would compile them again."""
    sources = {path for path in contents.files if path.endswith(".py")}
    compiled = {
        str(Path(path).parent.parent / Path(path).name.partition(".")[0])
        for path in contents.files
        if "__pycache__" in path
    }
    assert len(sources) > 500
    assert {path for path in sources if path.removesuffix(".py") not in compiled} == set()


def test_its_packages_are_those_of_the_lock(contents: ImageContents) -> None:
    packages = contents.python_packages()
    print("packages:", *(f"{name} {version}" for name, version in sorted(packages.items())), sep="\n  ")
    print("system packages:", *contents.system_packages(), sep="\n  ")
    locked = versions((FOLDER / "operator.lock").read_text())
    assert {canonical(name): version for name, version in packages.items() if name != "tfoperator"} == locked
    assert "libc6" in contents.system_packages()


def test_it_names_a_user_who_is_not_root_and_starts_the_operator(contents: ImageContents) -> None:
    assert contents.config["User"] == "65532:65532"
    assert contents.config["Entrypoint"] == ["python", "-m", "tfoperator.operator"]


def test_inside_nothing_can_be_written_and_nothing_is_there_that_is_not_imported(
    engine: docker.DockerClient, contents: ImageContents
) -> None:
    probed: dict[str, Any] = json.loads(
        engine.containers.run(
            IMAGE, ["-c", PROBE], entrypoint=["python"], read_only=True, network_mode="none", remove=True,
            cap_drop=["ALL"], security_opt=["no-new-privileges"],
        )
    )  # fmt: skip
    print(json.dumps(probed, indent=2))
    assert (probed["uid"], probed["gid"]) == (65532, 65532)
    assert 0 not in probed["groups"]
    assert set(probed["writing"]) == {"Read-only file system"}
    assert probed["importable"] == []
    unused = {canonical(name) for name in contents.python_packages()} - set(map(canonical, probed["imported"]))
    # Requirements of cffi and dateutil that a server does not import, and the library of a log archive at a URL.
    assert unused <= {"pycparser", "tzdata", "obstore"}


def test_it_says_what_is_missing_instead_of_starting(engine: docker.DockerClient) -> None:
    with pytest.raises(docker.errors.ContainerError) as failed:
        engine.containers.run(IMAGE, [], read_only=True, network_mode="none", remove=True)
    assert failed.value.exit_status == 2
    assert b"Traceback" not in failed.value.stderr
    assert b"kubeconfig" in failed.value.stderr
