import os
import shutil
import ssl
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.unit.kube.conftest import Certificates, Serve
from tfoperator.kube.config.tls import ClientCertificate, TlsContexts, TlsOptions
from tfoperator.kube.http.connections.destination import find_destination
from tfoperator.kube.http.connections.transport import Transport
from tfoperator.kube.protocol.errors import ConfigError


def test_files_are_looked_at_once_a_second_for_old_connections(certificates: Certificates, tmp_path: Path) -> None:
    ca, clock = tmp_path / "ca.crt", FakeClock()
    shutil.copy(certificates.ca, ca)
    contexts = TlsContexts(TlsOptions(ca=str(ca)), clock=clock)
    before = contexts.recent_context()
    ca.unlink()
    assert contexts.recent_context() is before
    with pytest.raises(ConfigError, match="cannot read"):
        contexts.context()  # for a new connection
    own = ClientCertificate(str(certificates.directory / "alice.crt"), str(certificates.directory / "alice.key"))
    shutil.copy(certificates.ca, ca)
    assert contexts.recent_context(own) is not before, "who we are is never of yesterday"
    alice = contexts.recent_context(own)
    clock.advance(1.1)
    os.utime(ca, (1, 1))
    bob = contexts.recent_context(own)
    assert bob is not alice
    os.utime(ca, (2, 2))
    assert contexts.recent_context(own) is bob
    new = contexts.context(own)  # somebody connects anew: all know of it
    assert contexts.recent_context(own) is new is not bob


def test_a_rotated_certificate_is_used_in_a_second(serve: Serve, certificates: Certificates, tmp_path: Path) -> None:
    def install(name: str) -> None:
        for suffix in ("crt", "key"):
            shutil.copy(certificates.directory / f"{name}.{suffix}", tmp_path / f"new.{suffix}")
            (tmp_path / f"new.{suffix}").replace(tmp_path / f"client.{suffix}")

    server = serve(
        lambda exchange: exchange.respond(200, exchange.client_name.encode()),
        certificates.server_context(ask_client=True),
    )
    install("alice")
    certificate = ClientCertificate(str(tmp_path / "client.crt"), str(tmp_path / "client.key"))
    clock = FakeClock()
    options = TlsOptions(ca=str(certificates.ca), client_certificate=certificate)
    transport = Transport(find_destination(server.url, options, clock=clock), clock=clock)
    assert transport.request("GET", "/").body == b"alice"
    install("bob")
    clock.advance(1.1)
    assert transport.request("GET", "/").body == b"bob"
    transport.close()


def test_a_missing_or_broken_file_is_named_and_no_key_is_shown(certificates: Certificates, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.crt"):
        TlsContexts(TlsOptions(ca=str(tmp_path / "nowhere.crt"))).context()
    broken = tmp_path / "broken.crt"
    broken.write_text("this is no certificate")
    with pytest.raises(ConfigError, match=r"broken\.crt contains no certificates"):
        TlsContexts(TlsOptions(ca=str(broken))).context()
    pair = ClientCertificate(str(certificates.directory / "alice.crt"), str(certificates.directory / "bob.key"))
    with pytest.raises(ConfigError, match=r"alice\.crt and .*bob\.key can't be used"):
        TlsContexts(TlsOptions(client_certificate=pair)).context()
    pair = ClientCertificate(b"CERT", b"s3cret")
    assert "s3cret" not in repr(TlsOptions(client_certificate=pair)) + repr(pair)


def test_an_intermediate_authority_is_trusted_without_its_root_as_by_kubectl(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    root = Certificates(tmp_path / "root")
    inner = Certificates(tmp_path)
    inner.become_intermediate_of(root)
    inner.make("server", "IP:127.0.0.1")
    server = serve(lambda exchange: exchange.respond(200, b"ok"), inner.server_context())
    transport = Transport(find_destination(server.url, inner.trust, clock=FakeClock()))
    assert transport.request("GET", "/").body == b"ok"
    transport.close()


def test_names_in_other_scripts_may_stand_between_the_certificates(certificates: Certificates) -> None:
    bundle = "# Főtanúsítvány\n".encode() + certificates.ca.read_bytes()
    context = TlsContexts(TlsOptions(ca=bundle)).context()
    assert isinstance(context, ssl.SSLContext)
    assert len(context.get_ca_certs()) == 1


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files in memory")
def test_a_certificate_in_the_kubeconfig_needs_no_writable_directory(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/read-only/root")
    chain, key = ((certificates.directory / f"alice.{suffix}").read_bytes() for suffix in ("crt", "key"))
    before = len(os.listdir("/proc/self/fd"))
    TlsContexts(TlsOptions(client_certificate=ClientCertificate(chain, key))).context()
    assert len(os.listdir("/proc/self/fd")) == before
