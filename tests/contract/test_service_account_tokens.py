"""Tokens of service accounts as a kubelet asks for them, and the keys by which anybody can verify them."""

from typing import Any

import pytest

from tests.contract.support import Json, Space, pod
from tfoperator.kube.protocol.resources import PODS, Resource
from tfoperator.servers.progress.tokens import PodIdentity, TokenRefused, parse_keys, verify

ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")


@pytest.fixture
def account(space: Space) -> str:
    space.create(ACCOUNTS, {"metadata": {"name": "trainer"}})
    return "trainer"


def request(space: Space, account: str, **spec: Any) -> Any:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return space.http("POST", space.path(ACCOUNTS, account, "token"), body)


def bound_to(made: Json, **changes: str) -> Json:
    named = {key: made["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": "v1", "kind": "Pod", **named, **changes}


def test_a_token_for_a_pod_and_an_audience_is_verified_by_the_published_keys(space: Space, account: str) -> None:
    made = space.create(PODS, pod("p", serviceAccountName=account))
    answer = request(space, account, audiences=["mine"], expirationSeconds=900, boundObjectRef=bound_to(made))
    assert (answer.code, answer.body["kind"], answer.body["spec"]["expirationSeconds"]) == (201, "TokenRequest", 900)
    with space.new_client() as client:
        published = [
            client.get_raw(path, accept="*/*") for path in ("/.well-known/openid-configuration", "/openid/v1/jwks")
        ]
    keys = parse_keys(*published)
    token = answer.body["status"]["token"]
    assert verify(token, keys, "mine") == PodIdentity(space.namespace, "p", made["metadata"]["uid"])
    with pytest.raises(TokenRefused, match="another job or service"):
        verify(token, keys, "yours")


def test_a_token_for_what_is_not_there_or_for_too_short_a_time_is_refused(space: Space, account: str) -> None:
    made = space.create(PODS, pod("p", serviceAccountName=account))
    codes = {
        "no account": request(space, "nobody", audiences=["mine"]).code,
        "no pod": request(space, account, boundObjectRef=bound_to(made, name="other")).code,
        "another UID": request(space, account, boundObjectRef=bound_to(made, uid="another")).code,
        "too short": request(space, account, expirationSeconds=599).code,
    }
    assert codes == {"no account": 404, "no pod": 404, "another UID": 409, "too short": 422}
