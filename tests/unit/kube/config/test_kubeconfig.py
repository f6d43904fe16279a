import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kube.config.kubeconfigs import kubeconfig, write
from tests.unit.kube.conftest import Certificates, Serve
from tfoperator.kube.client import Client
from tfoperator.kube.config.kubeconfig import read_kubeconfig
from tfoperator.kube.protocol.errors import ConfigError, TransportError

SECRET = "s3cret-t0ken"


def load(tmp_path: Path, content: Any, context: str | None = None):
    return read_kubeconfig([write(tmp_path / "config", content)], context)


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def wrapped(path: Path) -> str:
    """As `base64 FILE` prints it, in lines."""
    return base64.encodebytes(path.read_bytes()).decode()


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({}, ""),
        ({"token": "t"}, "Bearer t"),
        ({"username": "jane", "password": "p:w"}, "Basic amFuZTpwOnc="),
        ({"token": "t", "username": "jane", "password": "pw"}, "Bearer t"),
        ({"token": "t", "tokenFile": "token"}, "Bearer from-file"),
    ],
)
def test_who_a_user_is(tmp_path: Path, user: dict[str, str], expected: str) -> None:
    write(tmp_path / "token", " from-file\n")
    assert load(tmp_path, kubeconfig(user=user)).credentials.current().authorization == expected


def test_impersonation_becomes_headers_and_a_context_without_a_user_is_anonymous_and_must_be_known(
    tmp_path: Path,
) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["dev"]}}
    expected = [("User", "jane"), ("Uid", "7"), ("Group", "a"), ("Group", "b"), ("Extra-scopes", "dev")]
    headers = load(tmp_path, kubeconfig(user=user)).headers
    assert headers == tuple((f"Impersonate-{name}", value) for name, value in expected)
    assert load(tmp_path, kubeconfig(user={"as": "jane"})).headers == (("Impersonate-User", "jane"),)
    assert load(tmp_path, kubeconfig(user={})).headers == (), "an empty header would be a user, too"
    user = {"as": "jane", "as-user-extra": {"example.com/team%": ["ml"], "größe": ["1"]}}
    escaped = [name for name, _ in load(tmp_path, kubeconfig(user=user)).headers[1:]]
    assert escaped == ["Impersonate-Extra-example.com%2Fteam%25", "Impersonate-Extra-gr%C3%B6%C3%9Fe"]
    content = kubeconfig(cluster={"proxy-url": "http://p:3128"})
    content["contexts"][0]["context"] = {"cluster": "c"}
    config = load(tmp_path, content)
    assert (config.credentials.current().authorization, config.namespace) == ("", "default")
    assert config.proxy_url == "http://p:3128"
    with pytest.raises(ConfigError, match="needs context 'y', which does not exist: known contexts: x"):
        load(tmp_path, content, "y")


@pytest.mark.parametrize("form", ["files", "data", "wrapped data"])
def test_certificates_are_taken_from_files_and_data(
    tmp_path: Path, serve: Serve, certificates: Certificates, form: str
) -> None:
    tls = certificates.server_context(ask_client=True)
    server = serve(lambda exchange: exchange.respond(200, exchange.client_name.encode()), tls)
    chain, key = certificates.directory / "alice.crt", certificates.directory / "alice.key"
    if form == "files":
        cluster = {"certificate-authority": str(certificates.ca)}
        user = {"client-certificate": str(chain), "client-key": str(key)}
    else:
        encoded = data if form == "data" else wrapped
        cluster = {"certificate-authority-data": encoded(certificates.ca), "certificate-authority": "/nowhere"}
        user = {"client-certificate-data": encoded(chain), "client-key-data": encoded(key)}
    with Client(load(tmp_path, kubeconfig(server.url, cluster=cluster, user=user))) as client:
        assert client.get_raw("/") == b"alice"


def test_the_server_may_be_untrusted_or_have_another_name_when_the_cluster_says_so(
    tmp_path: Path, serve: Serve, certificates: Certificates
) -> None:
    server = serve(lambda exchange: exchange.respond(200, b"ok"), certificates.server_context("named"))
    ca = {"certificate-authority": str(certificates.ca)}
    for cluster in ({"insecure-skip-tls-verify": True}, ca | {"tls-server-name": "kube.test"}):
        with Client(load(tmp_path, kubeconfig(server.url, cluster=cluster))) as client:
            assert client.get_raw("/") == b"ok"
    with pytest.raises(ConfigError, match="can't be used together: remove one of them"):
        load(tmp_path, kubeconfig(cluster=ca | {"insecure-skip-tls-verify": True}))
    for cluster in (ca, {}):
        config = load(tmp_path, kubeconfig(server.url, cluster=cluster))
        with Client(config) as client, pytest.raises(TransportError, match="is not trusted"):
            client.get_raw("/")


def without(section: str) -> dict[str, Any]:
    content = kubeconfig(user={"token": SECRET})
    content[section] = []
    return content


BAD: list[tuple[Any, str]] = [
    ("", "is empty"),
    ("just text", "is not a kubeconfig"),
    ("- a\n- b\n", "is not a kubeconfig"),
    ({"clusters": {"c": {}}}, "is not a kubeconfig"),
    ({"users": [{"user": {"token": SECRET}}, {"user": {"token": SECRET}}]}, "is not a kubeconfig"),
    ({"users": [SECRET]}, "is not a kubeconfig"),
    (kubeconfig() | {"contexts": [{"name": None, "context": {"cluster": "c"}}]}, "is not a kubeconfig"),
    (f"users: {'[' * 1200}", "has more than 100 levels of nesting"),
    (f"users: [token: {SECRET}\nb: ]", r"is not valid YAML at line \d+, column \d+"),
    ({"current-context": ""}, "has no current-context: choose one with --context"),
    (without("contexts"), "needs context 'x', which does not exist: there are no contexts"),
    (without("clusters"), r"context 'x' needs cluster 'c', which does not exist: there are no clusters"),
    (without("users"), "context 'x' needs user 'u', which does not exist: there are no users"),
    (kubeconfig(context={"cluster": ""}), "context 'x': cluster is missing"),
    (kubeconfig(""), "cluster 'c': server must be a URL"),
    (kubeconfig(f"jane:{SECRET}@[::1"), "cluster 'c': "),
    (kubeconfig(f"jane:{SECRET}@k8s.test"), "cluster 'c': server must be a URL"),
    (kubeconfig(f"https://jane:{SECRET}@k8s.test"), "contains a user name or password"),
    (kubeconfig(cluster={"certificate-authority": "missing.crt"}), "certificate-authority names .*missing.crt"),
    (kubeconfig(cluster={"certificate-authority-data": "%%"}), "certificate-authority-data must be base64"),
    (kubeconfig(cluster={"certificate-authority-data": "AAAA"}), "contains no certificates in PEM form"),
    (kubeconfig(cluster={"insecure-skip-tls-verify": "yes"}), "insecure-skip-tls-verify must be true or false"),
    (kubeconfig(cluster={"server": 5}), "cluster 'c': server must be a string"),
    (kubeconfig(user={"token": 12345}), r"user 'u': token must be a string: put it in quotes"),
    (kubeconfig(user={"token": f"{SECRET}\nX: y"}), "user 'u': token must contain only the bearer token"),
    (kubeconfig(user={"as": "jane\r\nX: 1"}), "is not allowed in an HTTP header"),
    (kubeconfig(user={"tokenFile": "missing"}), "tokenFile names .*missing, but this file does not exist"),
    (kubeconfig(user={"client-certificate-data": "AAAA"}), "client-certificate is set, so client-key must be set"),
    (kubeconfig(user={"client-key-data": "AAAA"}), "client-key is set, so client-certificate must be set"),
    (kubeconfig(user=dict.fromkeys(["client-key-data", "client-certificate-data"], "AAAA")), "and key can't be used"),
    (kubeconfig(user={"exec": {"command": "x"}}), "user 'u': exec must have command and apiVersion"),
    (kubeconfig(user={"auth-provider": {"name": "gcp"}}), "has removed auth-provider 'gcp': use an exec plugin"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_what_is_wrong_is_named_and_no_secret_shown(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, content)
    assert str(tmp_path / "config") in str(caught.value)
    chain: BaseException | None = caught.value
    while chain is not None:
        assert SECRET not in str(chain)
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


def test_an_encrypted_key_is_an_error_and_asks_nobody(tmp_path: Path, certificates: Certificates) -> None:
    key, plain = tmp_path / "locked.key", certificates.directory / "alice.key"
    command = ["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", str(plain), "-out", str(key)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    user = {"client-certificate": str(certificates.directory / "alice.crt"), "client-key": str(key)}
    with pytest.raises(ConfigError, match=r"locked\.key can't be used"):
        load(tmp_path, kubeconfig(user=user))


USERS: dict[str, dict[str, Any]] = {
    "token": {"token": SECRET},
    "token file": {"tokenFile": "token"},
    "password": {"username": "jane", "password": SECRET},
    "plugin": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}},
    "issuer": {"auth-provider": {"name": "oidc", "config": {"id-token": SECRET}}},
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("server", ["http://k8s.test", "HTTP://10.0.0.1:8080", "http://localhost.k8s.test"])
def test_credentials_are_not_sent_in_the_clear(tmp_path: Path, user: str, server: str) -> None:
    write(tmp_path / "token", SECRET)
    with pytest.raises(
        ConfigError, match="credentials are sent only to an https:// server, but the server is"
    ) as caught:
        load(tmp_path, kubeconfig(server, user=USERS[user]))
    assert SECRET not in str(caught.value)
    assert load(tmp_path, kubeconfig(server)).server == server


@pytest.mark.parametrize("user", USERS)
def test_a_proxy_on_this_machine_gets_no_credentials_and_works(tmp_path: Path, serve: Serve, user: str) -> None:
    """As `kubectl proxy` gives it; anybody who has the port gets the same."""
    write(tmp_path / "token", SECRET)
    server = serve(lambda exchange: exchange.respond(200, b"ok"))
    with Client(load(tmp_path, kubeconfig(server.url, user=USERS[user] | {"as": "joe"}))) as client:
        assert client.get_raw("/") == b"ok"
    (request,) = server.requests
    assert "authorization" not in request.headers
    assert request.headers["impersonate-user"] == "joe"
