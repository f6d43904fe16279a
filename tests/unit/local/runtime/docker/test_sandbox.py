import io
import platform
import subprocess
import tarfile
from pathlib import Path

import pytest
from docker.errors import ImageNotFound

from tests.support.eventually import eventually
from tests.unit.local.node.pods import container, manifest, view
from tests.unit.local.runtime.docker.fakes import PlainSettings
from tfoperator.local.runtime.docker.engine import Engine
from tfoperator.local.runtime.docker.sandbox import ensure_sandbox_image, names_of, sandbox_settings
from tfoperator.local.runtime.protocol import RuntimeUnavailable


class Engineless(PlainSettings):
    """An engine that has no images, and keeps what it is given."""

    def __init__(self) -> None:
        self.imported = b""

    def inspect_image(self, _: str) -> None:
        raise ImageNotFound("none")

    def import_image_from_data(self, data: bytes, **_: str) -> None:
        self.imported = data


def program(architecture: str) -> bytes:
    """Return the program that the sandbox of an engine of this kind runs."""
    api = Engineless()
    ensure_sandbox_image(Engine(api, 1, architecture))
    with tarfile.open(fileobj=io.BytesIO(api.imported)) as tar:
        [member] = tar.getmembers()
        assert (member.name, member.mode) == ("pause", 0o755)
        file = tar.extractfile(member)
        return file.read()


def test_the_program_waits_until_it_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pause"
    file.write_bytes(program(platform.machine()))
    file.chmod(0o755)
    process = subprocess.Popen([file])
    try:
        state = Path(f"/proc/{process.pid}/stat")
        eventually(lambda: state.read_text().rpartition(")")[2].split()[0] == "S", what="it sleeps")
        assert process.poll() is None
    finally:
        process.kill()
        assert process.wait(60) == -9


@pytest.mark.parametrize(("architecture", "machine"), [("x86_64", 62), ("amd64", 62), ("aarch64", 183), ("arm64", 183)])
def test_it_is_made_for_the_processor_of_the_engine(architecture: str, machine: int) -> None:
    made = program(architecture)
    assert made[:5] == b"\x7fELF\x02"
    assert int.from_bytes(made[18:20], "little") == machine
    with pytest.raises(RuntimeUnavailable, match="not riscv64"):
        program("riscv64")


@pytest.mark.parametrize(
    ("spec", "services", "names"),
    [
        ({"hostname": "p", "subdomain": "b"}, ["a"], ["a"]),
        ({"hostname": "h", "subdomain": "b"}, ["a", "b"], ["a", "b", "h.b"]),
        ({"subdomain": "b"}, ["b"], ["b"]),
    ],
)
def test_services_and_the_pod_in_the_one_that_it_names_have_the_names_of_a_clusters_dns(
    spec: dict[str, str], services: list[str], names: list[str]
) -> None:
    suffixes = ("", ".ns", ".ns.svc", ".ns.svc.cluster.local")
    resolved = names_of(view(manifest("p", container(), **spec)), services)
    assert sorted(resolved) == sorted(name + suffix for name in names for suffix in suffixes)


def test_a_pod_has_its_services_names_in_the_network_of_its_namespace_or_is_in_that_of_the_host() -> None:
    pod = view(manifest("p", container(ports=[{"containerPort": 1, "hostPort": 2}])))
    settings = sandbox_settings(Engineless(), pod, "net", ["a"], {"mine": "yes"})
    assert settings["networking_config"]["net"]["aliases"] == names_of(pod, ["a"])
    assert settings["host_config"]["network_mode"] == "net"
    assert settings["host_config"]["port_bindings"] == {"1/tcp": ("127.0.0.1", 2)}
    assert settings.items() >= {"ports": [(1, "tcp")], "labels": {"mine": "yes"}}.items()
    settings = sandbox_settings(Engineless(), view(manifest("p", container(), hostNetwork=True)), "", ["a"], {})
    assert settings["host_config"]["network_mode"] == "host"
    assert not {"networking_config", "hostname"} & set(settings)


@pytest.mark.parametrize(
    ("name", "spec", "hostname"),
    [("p", {}, "p"), ("p", {"hostname": "other"}, "other"), ("x" * 62 + "-tail", {}, "x" * 62)],
)
def test_its_host_name_is_the_pods_as_far_as_a_host_name_goes(name: str, spec: dict[str, str], hostname: str) -> None:
    pod = view(manifest(name, container(), **spec))
    assert sandbox_settings(Engineless(), pod, "net", [], {})["hostname"] == hostname
