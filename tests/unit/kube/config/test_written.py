"""A kubeconfig that changes while a client uses it: the credentials and the CA that it holds are read again."""

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.unit.kube.config.kubeconfigs import kubeconfig, write
from tests.unit.kube.conftest import Certificates, Serve
from tests.unit.kube.server import Exchange
from tfoperator.base.files import file_mark
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.kubeconfig import read_kubeconfig
from tfoperator.kube.protocol.errors import ApiError


class File:
    """A kubeconfig on the disk, and the time of the process that reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()

    def load(self) -> ClusterConfig:
        return read_kubeconfig([self.path], clock=self.clock)

    def hold(self, server: str = "https://k8s.test:6443", **parts: Any) -> None:
        """Replace the file, as tools do: by another that is renamed."""
        write(self.path.with_suffix(".new"), kubeconfig(server, **parts)).replace(self.path)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "config")


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def user_of(certificates: Certificates, name: str) -> dict[str, str]:
    chain, key = (certificates.directory / f"{name}.{kind}" for kind in ("crt", "key"))
    return {"client-certificate-data": data(chain), "client-key-data": data(key)}


def test_a_token_that_is_replaced_in_the_file_is_used_at_once_after_a_refusal(
    file: File, serve: Serve, certificates: Certificates
) -> None:
    valid = "one"

    def handler(exchange: Exchange) -> None:
        if exchange.headers["authorization"] == f"Bearer {valid}":
            exchange.respond(200, b"ok")
        else:
            exchange.status(401, "Unauthorized", "expired")

    server = serve(handler, certificates.server_context())
    trust = {"certificate-authority-data": data(certificates.ca)}
    file.hold(server.url, cluster=trust, user={"token": "one"})
    with Client(file.load()) as client:
        assert client.get_raw("/") == b"ok"
        valid = "two"
        with pytest.raises(ApiError):
            client.get_raw("/")
        file.hold(server.url, cluster=trust, user={"token": "two"})
        assert client.get_raw("/") == b"ok"


def test_a_client_certificate_in_the_file_is_replaced_on_new_connections(
    file: File, serve: Serve, certificates: Certificates
) -> None:
    tls = certificates.server_context(ask_client=True)
    server = serve(lambda exchange: exchange.respond(200, exchange.client_name.encode()), tls)
    trust = {"certificate-authority-data": data(certificates.ca)}
    file.hold(server.url, cluster=trust, user=user_of(certificates, "alice"))
    with Client(file.load()) as client:
        assert client.get_raw("/") == b"alice"
        file.hold(server.url, cluster=trust, user=user_of(certificates, "bob"))
        file.clock.advance(1)
        assert client.get_raw("/") == b"bob"


def test_a_certificate_authority_in_the_file_is_replaced(
    file: File, serve: Serve, certificates: Certificates, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Certificates(tmp_path / "other")
    other.make("server", "IP:127.0.0.1")
    servers = [
        serve(lambda exchange: exchange.respond(200, b"ok"), ca.server_context()) for ca in (certificates, other)
    ]
    file.hold(servers[1].url, cluster={"certificate-authority-data": data(certificates.ca)})
    config = file.load()
    with Client(config) as client, pytest.raises(Exception, match="certificate"):
        client.get_raw("/")
    file.hold(servers[1].url, cluster={"certificate-authority-data": data(other.ca)})
    file.clock.advance(1)
    with Client(config) as client:
        assert client.get_raw("/") == b"ok"


def test_the_files_are_looked_at_once_a_second_and_never_for_what_is_held(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.hold(user={"token": "one"})
    credentials = file.load().credentials
    file.clock.advance(1)
    assert credentials.held() is None
    assert credentials.current().authorization == "Bearer one"
    looks: list[Path] = []
    monkeypatch.setattr("tfoperator.kube.config.written.file_mark", lambda path: looks.append(path) or file_mark(path))
    for _ in range(100):
        assert credentials.held() == credentials.current()
    assert looks == []


@pytest.mark.parametrize("spoilt", ["users: [", "", "current-context: x", None])
def test_a_file_that_is_spoilt_or_gone_keeps_the_credentials_so_far_and_is_followed_again(
    file: File, spoilt: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    file.hold(user={"token": "s3cret"})
    credentials = file.load().credentials
    if spoilt is None:
        file.path.unlink()
    else:
        file.path.write_text(spoilt)
    for _ in range(3):
        file.clock.advance(1)
        assert credentials.current().authorization == "Bearer s3cret"
    assert caplog.text.count("continuing with the old credentials") == 1
    assert "s3cret" not in caplog.text
    file.hold(user={"token": "new"})
    file.clock.advance(1)
    assert credentials.current().authorization == "Bearer new"
    assert not credentials.refused("Bearer new")
    assert credentials.refused("Bearer s3cret")
