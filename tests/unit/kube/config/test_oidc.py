import base64
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.kube.config.kubeconfigs import Load
from tests.unit.kube.conftest import Certificates, Serve
from tests.unit.kube.server import Exchange
from tfoperator.kube.protocol.errors import ConfigError


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
    """An identity provider that records the requests that it gets."""

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
