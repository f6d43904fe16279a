from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.unit.kube.conftest import Certificates, Serve
from tfoperator.kube.client import Client
from tfoperator.kube.cluster import ClusterConfig
from tfoperator.kube.errors import ConfigError, ConnectionRefused, TransportError
from tfoperator.kube.proxy import Proxy, bypasses_proxy, choose_proxy
from tfoperator.kube.tls import TlsOptions


class ConnectProxy:
    """A proxy that knows nothing but CONNECT, and whose password is `open`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.socks: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.spawn(self.serve, client)

    def spawn(self, target, *args) -> None:
        self.threads.append(threading.Thread(target=target, args=args, daemon=True))
        self.threads[-1].start()

    def serve(self, client: socket.socket) -> None:
        self.socks.append(client)
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        self.asked.append(head.split(b"\r\n")[0].decode())
        if b"Proxy-Authorization: Basic dXNlcjpvcGVu" not in head:  # user:open
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            client.close()
            return
        host, port = head.split()[1].decode().split(":")
        server = socket.create_connection((host, int(port)))
        self.socks.append(server)
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.spawn(self.pump, server, client)
        self.pump(client, server)

    @staticmethod
    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def stop(self) -> None:
        for sock in [self.listener, *self.socks]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(5)
        for sock in [self.listener, *self.socks]:
            sock.close()


@pytest.fixture
def proxy() -> Iterator[ConnectProxy]:
    running = ConnectProxy()
    yield running
    running.stop()


def test_the_server_is_reached_through_a_tunnel(serve: Serve, certificates: Certificates, proxy: ConnectProxy) -> None:
    server = serve(lambda exchange: exchange.respond(200, b"ok"), certificates.server_context())
    config = ClusterConfig(
        server=server.url, tls=TlsOptions(ca=str(certificates.ca)), proxy_url=f"http://user:open@127.0.0.1:{proxy.port}"
    )
    with Client(config) as client:
        assert client.get_raw("/") == b"ok"
        assert client.get_raw("/") == b"ok"
    (asked,) = proxy.asked
    assert asked.startswith(f"CONNECT 127.0.0.1:{server.port} ")
    assert "proxy-authorization" not in server.requests[0].headers


def test_what_the_proxy_says_is_said_without_its_password(serve: Serve, proxy: ConnectProxy) -> None:
    config = ClusterConfig(server="http://k8s.test", proxy_url=f"http://user:s3cret@127.0.0.1:{proxy.port}")
    with (
        Client(config) as client,
        pytest.raises(TransportError, match=r"through the proxy 127\.0\.0\.1.*407") as caught,
    ):
        client.get_raw("/")
    assert "s3cret" not in str(caught.value)


def test_an_ipv6_address_is_asked_for_in_brackets(proxy: ConnectProxy) -> None:
    config = ClusterConfig(server="https://[fd00::1]:6443", proxy_url=f"http://user:wrong@127.0.0.1:{proxy.port}")
    with Client(config) as client, pytest.raises(TransportError, match="407"):
        client.get_raw("/")
    (asked,) = proxy.asked
    assert asked.startswith("CONNECT [fd00::1]:6443 ")


def test_a_proxy_that_is_away_is_named() -> None:
    config = ClusterConfig(server="http://k8s.test", proxy_url="http://127.0.0.1:1")
    with Client(config) as client, pytest.raises(ConnectionRefused, match=r"through the proxy 127\.0\.0\.1:1"):
        client.get_raw("/")


@pytest.mark.parametrize("url", ["socks5://p:1080", "https://p:443", "http://", "http://p:port"])
def test_other_proxies_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="a proxy must be given as http://host:port"):
        choose_proxy(url, "https", "k8s.test", 443)


def test_the_environment_chooses_by_the_servers_scheme() -> None:
    environ = {"HTTPS_PROXY": "http://secure:1", "http_proxy": "plain:2", "NO_PROXY": "direct.test"}
    assert choose_proxy("", "https", "k8s.test", 443, environ=environ) == Proxy("secure", 1)
    assert choose_proxy("", "http", "k8s.test", 80, environ=environ) == Proxy("plain", 2)
    assert choose_proxy("", "https", "direct.test", 443, environ=environ) is None
    assert choose_proxy("http://mine:3", "https", "direct.test", 443, environ=environ) == Proxy("mine", 3)
    assert choose_proxy("", "https", "k8s.test", 443, environ={}) is None


@pytest.mark.parametrize(
    ("host", "no_proxy", "bypasses"),
    [
        ("10.96.0.1", "10.0.0.0/8", True),
        ("11.0.0.1", "10.0.0.0/8,192.168.0.0/16", False),
        ("10.96.0.1", "10.96.0.1", True),
        ("10.96.0.1", "10.96.0.1:443", True),
        ("10.96.0.1", "10.96.0.1:6443", False),
        ("fd00::1", "fd00::/8", True),
        ("k8s.corp.test", "corp.test", True),
        ("corp.test", "corp.test", True),
        ("corp.test", ".corp.test", False),
        ("k8s.corp.test", ".corp.test, other.test", True),
        ("notcorp.test", "corp.test", False),
        ("K8S.Corp.Test", "corp.test", True),
        ("anything", "*", True),
        ("anything", "", False),
        ("localhost", "", True),
        ("127.0.0.1", "", True),
    ],
)
def test_what_no_proxy_means(host: str, no_proxy: str, bypasses: bool) -> None:
    assert bypasses_proxy(host, 443, no_proxy) is bypasses
