import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.unit.kube.config.kubeconfigs import kubeconfig, write
from tests.unit.kube.conftest import Certificates, Serve
from tests.unit.kube.server import Exchange
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import ConfigError

API_VERSION = "client.authentication.k8s.io/v1"

# A plugin as a user would have it: it prints the content of the file `answer` next to it and counts its runs.
PLUGIN = f"""#!{sys.executable}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
runs = here / "runs"
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
(here / "info").write_text(os.environ["KUBERNETES_EXEC_INFO"])
(here / "seen").write_text(json.dumps([sys.argv[1:], os.environ.get("REGION")]))
sys.stdout.write((here / "answer").read_text())
"""


class Plugin:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "plugin"
        self.path.write_text(PLUGIN)
        self.path.chmod(0o755)

    def says(self, **status: Any) -> None:
        self.says_raw(credential(status=status))

    def hands_out(self, certificates: Certificates, name: str) -> None:
        chain, key = ((certificates.directory / f"{name}.{suffix}").read_text() for suffix in ("crt", "key"))
        self.says(clientCertificateData=chain, clientKeyData=key)

    def says_raw(self, answer: Any) -> None:
        (self.directory / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def runs(self) -> int:
        runs = self.directory / "runs"
        return len(runs.read_text()) if runs.exists() else 0

    def user(self, **settings: Any) -> dict[str, Any]:
        defaults = {"apiVersion": API_VERSION, "command": str(self.path), "interactiveMode": "Never"}
        return {"exec": {**defaults, **settings}}


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def do(
        user: dict[str, Any], server: str = "https://k8s.test", clock: FakeClock | None = None, trust=None, **parts: Any
    ):
        if trust is not None:
            parts["cluster"] = {"certificate-authority": str(trust.ca)}
        return load_config(str(write(tmp_path / "config", kubeconfig(server, user=user, **parts))), clock=clock)

    return do


def stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_plugin_is_run_when_it_is_needed_and_again_when_its_token_expires(plugin: Plugin, load: Load) -> None:
    clock = FakeClock()
    plugin.says(token="one", expirationTimestamp=stamp(clock.now() + timedelta(minutes=14)))
    credentials = load(plugin.user(), clock=clock).credentials
    assert plugin.runs == 0
    assert [credentials.current().authorization for _ in range(3)] == ["Bearer one"] * 3
    assert plugin.runs == 1
    plugin.says(token="two", expirationTimestamp=stamp(clock.now() + timedelta(minutes=28)))
    clock.advance(13.5 * 60)
    assert credentials.current().authorization == "Bearer two"
    assert plugin.runs == 2


def test_a_plugin_beside_the_kubeconfig_gets_arguments_environment_and_the_cluster(plugin: Plugin, load: Load) -> None:
    plugin.says(token="t")
    given: dict[str, Any] = {"args": ["get-token", "-i", "c"], "env": [{"name": "REGION", "value": "r1"}]}
    user = plugin.user(command="./plugin", provideClusterInfo=True, **given)
    load(user, cluster={"tls-server-name": "x"}).credentials.current()
    assert json.loads((plugin.directory / "seen").read_text()) == [["get-token", "-i", "c"], "r1"]
    info = json.loads((plugin.directory / "info").read_text())
    assert info["apiVersion"] == API_VERSION
    assert info["spec"]["cluster"]["server"] == "https://k8s.test"


def test_a_refused_token_is_issued_anew(plugin: Plugin, load: Load, serve: Serve, certificates: Certificates) -> None:
    def handler(exchange: Exchange) -> None:
        if exchange.headers["authorization"] == "Bearer two":
            exchange.respond(200, b"ok")
        else:
            plugin.says(token="two")
            exchange.status(401, "Unauthorized", "expired")

    plugin.says(token="one")
    server = serve(handler, certificates.server_context())
    with Client(load(plugin.user(), server.url, trust=certificates)) as client:
        assert client.get_raw("/") == b"ok"
    assert plugin.runs == 2


def test_a_refused_client_certificate_is_issued_anew_and_old_connections_are_left(
    plugin: Plugin, load: Load, serve: Serve, certificates: Certificates
) -> None:
    def handler(exchange: Exchange) -> None:
        assert "authorization" not in exchange.headers
        if len(exchange.server.requests) == 2:
            plugin.hands_out(certificates, "bob")
        if len(exchange.server.requests) > 1 and exchange.client_name == "alice":
            exchange.status(401, "Unauthorized", "certificate has expired")
        else:
            exchange.respond(200, exchange.client_name.encode())

    server = serve(handler, certificates.server_context(ask_client=True))
    plugin.hands_out(certificates, "alice")
    with Client(load(plugin.user(), server.url, trust=certificates)) as client:
        assert client.get_raw("/") == b"alice"
        assert client.get_raw("/") == b"bob"
    assert plugin.runs == 2


def credential(api_version: str = API_VERSION, **more: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "ExecCredential", **more}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("s3cret is not JSON", "failed to decode process output"),
        (credential(), "missing key 'status'"),
        (credential("other/v1", status={"token": "s3cret"}), "does not match"),
        (credential(status={}), "neither a token nor"),
        (credential(status="s3cret"), "has no status"),
        (credential(status={"clientCertificateData": "s3cret"}), "neither a token nor"),
        (credential(status={"token": "s3cret x"}), "must contain only the bearer token, but it has"),
        (credential(status={"token": "s3cret", "expirationTimestamp": "soon"}), "not a time of RFC 3339"),
        ("[]", "answer"),
    ],
)
def test_a_bad_answer_is_explained_without_showing_it(plugin: Plugin, load: Load, answer: Any, message: str) -> None:
    plugin.says_raw(answer)
    with pytest.raises(ConfigError, match=message) as caught:
        load(plugin.user()).credentials.current()
    assert f"user 'u': exec plugin {plugin.path}" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_plugin_that_fails_is_quoted_and_one_that_is_not_installed_gives_its_hint(plugin: Plugin, load: Load) -> None:
    user = plugin.user(command="sh", args=["-c", "echo run: login first >&2; exit 3"])
    with pytest.raises(ConfigError, match=r"exec plugin sh failed: process returned 3\. run: login first"):
        load(user).credentials.current()
    user = plugin.user(command="no-such-plugin-here", installHint="pip install it\n")
    with pytest.raises(ConfigError, match="no-such-plugin-here was not found: pip install it"):
        load(user).credentials.current()
    plugin.path.chmod(0o600)
    with pytest.raises(ConfigError, match="can't be started: Permission denied"):
        load(plugin.user()).credentials.current()


def id_token(expires: datetime) -> str:
    parts = [{"alg": "none"}, {"exp": int(expires.timestamp())}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2ln"])


def expired_user(issuer: str, **more: str) -> dict[str, Any]:
    """Return a user whose token has to be refreshed by this issuer."""
    tokens = {"id-token": id_token(datetime.now(UTC) - timedelta(hours=1)), "refresh-token": "s3cret"}
    config = {"client-id": "c", "client-secret": "s3cret", "idp-issuer-url": issuer, **tokens, **more}
    return {"auth-provider": {"name": "oidc", "config": config}}


def test_an_openid_connect_token_is_used_while_it_holds_and_refreshed_or_an_error(load: Load) -> None:
    token = id_token(datetime.now(UTC) + timedelta(hours=1))
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
    assert load(user).credentials.current().authorization == f"Bearer {token}"
    with pytest.raises(ConfigError, match="user 'u': refreshing the OpenID Connect token failed") as caught:
        load(expired_user("https://127.0.0.1:1")).credentials.current()
    assert "s3cret" not in str(caught.value)


class Issuer:
    """An identity provider, which takes down what it is asked."""

    def __init__(self, serve: Serve, certificates: Certificates) -> None:
        self.seen: list[tuple[str, str]] = []
        self.fresh = id_token(datetime.now(UTC) + timedelta(hours=1))
        self._server = serve(self._answer, certificates.server_context())
        self.url = self._server.url

    def _answer(self, exchange: Exchange) -> None:
        self.seen.append((exchange.target, exchange.body.decode()))
        if exchange.target.endswith("/openid-configuration"):
            body: dict[str, Any] = {"token_endpoint": f"{self.url}/token"}
        else:
            body = {"id_token": self.fresh, "refresh_token": "next", "access_token": "a", "token_type": "bearer"}
        exchange.respond(200, body)


@pytest.fixture
def issuer(serve: Serve, certificates: Certificates) -> Issuer:
    return Issuer(serve, certificates)


@pytest.mark.parametrize("empty", [(), ("idp-certificate-authority",), ("idp-certificate-authority-data",)])
def test_nothing_is_sent_to_an_issuer_that_nobody_vouches_for(load: Load, issuer: Issuer, empty: tuple[str]) -> None:
    with pytest.raises(ConfigError, match=r"is not trusted \(.*\): set idp-certificate-authority") as caught:
        load(expired_user(issuer.url, **dict.fromkeys(empty, ""))).credentials.current()
    assert issuer.seen == []
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("form", ["file", "data", "system"])
def test_a_token_is_refreshed_from_an_issuer_whose_authority_is_known(
    load: Load, issuer: Issuer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    own: dict[str, str] = {}
    if form == "file":
        own["idp-certificate-authority"] = str(certificates.ca)
    elif form == "data":
        own["idp-certificate-authority-data"] = base64.b64encode(certificates.ca.read_bytes()).decode()
    else:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    assert load(expired_user(issuer.url, **own)).credentials.current().authorization == f"Bearer {issuer.fresh}"
    assert [path for path, _ in issuer.seen] == ["/.well-known/openid-configuration", "/token"]
    assert "refresh_token=s3cret" in issuer.seen[1][1]


def test_no_issuer_is_trusted_without_tls_or_authorities(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="idp-issuer-url must be an https:// URL"):
        load(expired_user("http://127.0.0.1:1"))
    monkeypatch.setattr("ssl.get_default_verify_paths", lambda: SimpleNamespace(cafile=None))
    with pytest.raises(ConfigError, match=r"no authority is trusted for https://.*: set idp-certificate-authority"):
        load(expired_user("https://127.0.0.1:1"))
