"""A certificate authority and certificates made by OpenSSL, and servers that are stopped after the test."""

import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.threads import every_thread_ends
from tests.unit.kube.server import Handler, ScriptedServer
from tfoperator.kube import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.tls import TlsOptions

__all__ = ["every_thread_ends"]


EC = "ec -pkeyopt ec_paramgen_curve:prime256v1"


class Certificates:
    """PEM files of one authority: `ca.crt`, and `{name}.crt` with `{name}.key` for each name made."""

    def __init__(self, directory: Path, of_authority: str = "-addext keyUsage=critical,keyCertSign,cRLSign") -> None:
        self.directory = directory
        self.ca = directory / "ca.crt"
        self._openssl(
            f"req -x509 -newkey {EC} -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.crt {of_authority}"
        )

    def _openssl(self, arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], cwd=self.directory, check=True, capture_output=True, timeout=60)

    def make(self, name: str, *alternatives: str) -> tuple[Path, Path]:
        files = f"-keyout {name}.key -out {name}.csr"
        self._openssl(f"req -newkey {EC} -nodes -subj /O=system:masters/CN={name} {files}")
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(alternatives)}\n" if alternatives else "")
        issuer = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 2"
        self._openssl(f"x509 -req -in {name}.csr {issuer} -out {name}.crt -extfile {name}.ext")
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    def become_intermediate_of(self, root: "Certificates") -> None:
        """Let another authority issue this authority's certificate."""
        self._openssl(f"req -newkey {EC} -nodes -subj /CN=inner-ca -keyout ca.key -out ca.csr")
        (self.directory / "ca.ext").write_text("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n")
        issuer = f"-CA {root.ca} -CAkey {root.directory}/ca.key -CAcreateserial -days 2"
        self._openssl(f"x509 -req -in ca.csr {issuer} -out ca.crt -extfile ca.ext")

    @property
    def trust(self) -> TlsOptions:
        """Return the options with which a client trusts servers of this authority."""
        return TlsOptions(ca=str(self.ca))

    def server_context(self, name: str = "server", *, ask_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        if ask_client:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make("server", "IP:127.0.0.1", "DNS:localhost")
    made.make("named", "DNS:kube.test")
    made.make("alice")
    made.make("bob")
    return made


Serve = Callable[..., ScriptedServer]
MakeClient = Callable[..., Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers: `serve(handler, tls=context)`."""
    with ExitStack() as stack:

        def start(handler: Handler, tls: ssl.SSLContext | None = None) -> ScriptedServer:
            return stack.enter_context(ScriptedServer(handler, tls))

        yield start


@pytest.fixture
def client_for(serve: Serve) -> Iterator[MakeClient]:
    """Makes clients: `client_for(url, {"tls": ...}, parallelism=1)`; the second argument is more of `ClusterConfig`.

    With a handler instead of a URL it starts a server.
    """
    with ExitStack() as stack:

        def make(server: str | Handler, config: dict[str, Any] | None = None, **options: Any) -> Client:
            url = server if isinstance(server, str) else serve(server).url
            return stack.enter_context(Client(ClusterConfig(server=url, **(config or {})), **options))

        yield make


@pytest.fixture(autouse=True)
def _no_proxy_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
