import contextlib
import socket

import pytest

from tests.support.threads import InThread
from tests.unit.kube.conftest import Certificates, MakeClient, Serve
from tests.unit.kube.server import Exchange, ScriptedServer
from tfoperator.kube.http.connections.proxy import Proxy, bypasses_proxy, choose_proxy
from tfoperator.kube.protocol.errors import ConfigError, ConnectionRefused, TransportError


def tunnel(exchange: Exchange) -> None:
    """A proxy that knows nothing but CONNECT, and whose password is `open`."""
    if exchange.headers.get("proxy-authorization") != "Basic dXNlcjpvcGVu":  # user:open
        exchange.send(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        exchange.hang_up()
        return
    host, port = exchange.target.split(":")
    with socket.create_connection((host, int(port))) as server:
        exchange.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        back = InThread(lambda: pump(server, exchange.sock))
        pump(exchange.sock, server)
        back.result()
    exchange.hang_up()


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy(serve: Serve) -> ScriptedServer:
    return serve(tunnel)


def test_the_server_is_reached_through_a_tunnel(
    serve: Serve, client_for: MakeClient, certificates: Certificates, proxy: ScriptedServer
) -> None:
    server = serve(lambda exchange: exchange.respond(200, b"ok"), certificates.server_context())
    through = {"proxy_url": f"http://user:open@127.0.0.1:{proxy.port}"}
    client = client_for(server.url, {"tls": certificates.trust, **through})
    for _ in range(2):
        assert client.get_raw("/") == b"ok"
    assert [(request.method, request.target) for request in proxy.requests] == [("CONNECT", f"127.0.0.1:{server.port}")]
    assert "proxy-authorization" not in server.requests[0].headers


def test_what_the_proxy_says_is_said_without_its_password(client_for: MakeClient, proxy: ScriptedServer) -> None:
    client = client_for("https://[fd00::1]:6443", {"proxy_url": f"http://user:s3cret@127.0.0.1:{proxy.port}"})
    with pytest.raises(TransportError, match=r"through the proxy 127\.0\.0\.1.*407") as caught:
        client.get_raw("/")
    assert "s3cret" not in str(caught.value)
    assert [(request.method, request.target) for request in proxy.requests] == [("CONNECT", "[fd00::1]:6443")]
    client = client_for("http://k8s.test", {"proxy_url": "http://127.0.0.1:1"})
    with pytest.raises(ConnectionRefused, match=r"through the proxy 127\.0\.0\.1:1"):
        client.get_raw("/")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("socks5://p:1080", "socks5 proxies are not supported"),
        ("https://p:443", "https proxies are not supported"),
        ("http://", "its host is missing"),
        ("http://p:port", "its port is malformed"),
    ],
)
def test_other_proxies_are_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"a proxy must be given as http://host:port: {problem}"):
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
        ("fd00::1", "[fd00::1]", True),
        ("fd00::1", "[fd00::1]:443", True),
        ("fd00::1", "[fd00::1]:6443", False),
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
