import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from tests.support.clock import FakeClock
from tests.unit.servers.progress.samples import ISSUER, Cluster, forged
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.servers.progress.tokens import (
    KeysUnavailable,
    PodIdentity,
    TokenRefused,
    TokenVerifier,
    parse_keys,
    verify,
)

MINE, OTHER = "progress/ns/mnist", "progress/ns/other"
POD = PodIdentity("ns", "mnist-worker-0", "mnist-worker-0-uid")


@pytest.fixture(params=[False, True], ids=["ES256", "RS256"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return Cluster(rsa_key=request.param)


def check(cluster: Cluster, token: str) -> PodIdentity:
    keys = parse_keys(cluster.fetch("/.well-known/openid-configuration"), cluster.fetch("/openid/v1/jwks"))
    return verify(token, keys, MINE)


def test_a_pods_token_for_this_job_names_the_pod_though_clocks_may_differ_a_little(cluster: Cluster) -> None:
    assert check(cluster, cluster.token(MINE)) == POD
    now = int(time.time())
    assert check(cluster, cluster.token(MINE, exp=now - 3, iat=now + 4, nbf=now + 4)) == POD


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"aud": [OTHER]}, "another job"),
        ({"aud": "https://kubernetes.default.svc"}, "another job"),
        ({"aud": None}, "not valid"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "not valid"),
        ({"exp": "never"}, "not valid"),
        ({"nbf": int(time.time()) + 3600}, "not valid"),
        ({"iss": "https://elsewhere"}, "not valid"),
        ({"iss": None}, "not valid"),
        ({"kubernetes.io": None}, "no pod"),
        ({"kubernetes.io": []}, "no pod"),
        ({"kubernetes.io": {"namespace": "ns"}}, "no pod"),
        ({"kubernetes.io": {"namespace": "ns", "pod": {"name": "mnist-worker-0"}}}, "no pod"),
        ({"kubernetes.io": {"namespace": "ns", "pod": {"name": "mnist-worker-0", "uid": ""}}}, "no pod"),
    ],
)
def test_a_token_for_anything_else_is_refused(cluster: Cluster, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        check(cluster, cluster.token(MINE, **changes))


def test_a_token_that_was_changed_or_has_no_signature_or_one_of_another_key_is_refused(cluster: Cluster) -> None:
    public = cluster.private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    for secret in (pem, json.dumps(cluster.jwk).encode()):
        unsigned = forged({"alg": "HS256", "kid": cluster.kid, "typ": "JWT"}, cluster.claims(MINE)).rpartition(".")[0]
        digest = hmac.new(secret, unsigned.encode(), hashlib.sha256).digest()
        with pytest.raises(TokenRefused):
            check(cluster, f"{unsigned}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}")
    stranger = Cluster(kid=cluster.kid)
    with pytest.raises(TokenRefused):
        check(cluster, stranger.token(MINE, {"jwk": stranger.jwk, "jku": "https://elsewhere", "x5u": "https://x"}))
    with pytest.raises(TokenRefused, match="this cluster"):
        check(cluster, Cluster(kid="another").token(MINE))
    head, body, signature = cluster.token(MINE).split(".")
    other = cluster.token(MINE, sub="somebody").split(".")[1]
    spoilt = [f"{head}.{other}.{signature}", f"{head}.{body}.", f"{head}.{body}", "", "a.b.c", "." * 5, "x" * 9000]
    for algorithm in ("none", "None", "NONE", "nOnE"):
        spoilt.append(forged({"alg": algorithm, "kid": cluster.kid}, cluster.claims(MINE)))
    for token in spoilt:
        with pytest.raises(TokenRefused):
            check(cluster, token)


def test_keys_that_are_not_for_signatures_are_passed_over() -> None:
    signer = Cluster()
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "key-1", "alg": "HS256"}
    keys = {"keys": [secret, 5, {"kty": "EC", "kid": "odd"}, {**signer.jwk, "use": "enc", "kid": "x"}, signer.jwk]}
    parsed = parse_keys(json.dumps({"issuer": ISSUER}).encode(), json.dumps(keys).encode())
    assert set(parsed.keys) == {"key-1"}
    assert isinstance(parsed.keys["key-1"], jwt.PyJWK)
    for discovery, published in ((b"{}", keys), (b"x", keys), (b'{"issuer": "x"}', {"keys": []}), (b"[]", {})):
        with pytest.raises(ValueError, match="API server"):
            parse_keys(discovery, json.dumps(published).encode())


def test_keys_are_fetched_once_and_again_when_they_are_old_or_one_is_missing() -> None:
    clock, cluster = FakeClock(), Cluster()
    verifier = TokenVerifier(cluster.fetch, clock=clock)
    assert verifier.known(cluster.token(MINE), MINE) is None
    assert verifier.verify(cluster.token(MINE), MINE) == POD
    for _ in range(100):
        assert verifier.known(cluster.token(MINE), MINE) == POD
    assert len(cluster.fetched) == 2
    clock.pass_time(301, waiters=0)
    assert verifier.known(cluster.token(MINE), MINE) is None
    assert verifier.verify(cluster.token(MINE), MINE) == POD
    assert len(cluster.fetched) == 4
    clock.pass_time(20, waiters=0)
    cluster.kid = "key-2"  # the API server signs with another key now
    assert verifier.known(cluster.token(MINE), MINE) is None
    assert verifier.verify(cluster.token(MINE), MINE) == POD


def test_strangers_who_name_keys_cause_a_fetch_every_ten_seconds_at_most() -> None:
    clock, cluster = FakeClock(), Cluster()
    verifier = TokenVerifier(cluster.fetch, clock=clock)
    stranger = Cluster(kid="made-up").token(MINE)
    for _ in range(50):
        with pytest.raises(TokenRefused):
            verifier.known(stranger, MINE) or verifier.verify(stranger, MINE)
        clock.pass_time(0.5, waiters=0)
    assert len(cluster.fetched) == 6

    def slowly(path: str) -> bytes:
        clock.pass_time(15, waiters=0)
        return cluster.fetch(path)

    verifier = TokenVerifier(slowly, clock=clock)
    for _ in range(5):  # who waited for the first fetch, one after the other
        with pytest.raises(TokenRefused):
            verifier.verify(stranger, MINE)
    assert len(cluster.fetched) == 8


def test_old_keys_hold_while_the_api_server_is_away() -> None:
    clock, cluster = FakeClock(), Cluster()
    away: list[bool] = [True]

    def fetch(path: str) -> bytes:
        if away[0]:
            raise TransportError("connection refused")
        return cluster.fetch(path)

    verifier = TokenVerifier(fetch, clock=clock)
    with pytest.raises(KeysUnavailable):
        verifier.verify(cluster.token(MINE), MINE)
    away[0] = False
    clock.pass_time(10, waiters=0)
    assert verifier.verify(cluster.token(MINE), MINE) == POD
    away[0] = True
    clock.pass_time(3600, waiters=0)
    assert verifier.verify(cluster.token(MINE), MINE) == POD
