import json
from typing import Any

import pytest

from tfoperator.api.schema.crd import crd
from tfoperator.kube import apply_merge_patch
from tfoperator.servers.webhook.registration import (
    CrdView,
    Target,
    decode_crd,
    needs_conversion,
    registration_patch,
    trusted_by,
)

SERVICE = Target("tfoperator-webhook", "tfoperator-system")
URL = Target(url="https://127.0.0.1:9443/convert")
BUNDLE = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def view(obj: dict[str, Any]) -> CrdView:
    return decode_crd(json.dumps(obj).encode())


def installed(**conversion: Any) -> dict[str, Any]:
    obj = crd(all_versions=True)
    obj["metadata"]["resourceVersion"] = "7"
    obj["spec"]["conversion"] = conversion or obj["spec"]["conversion"]
    return obj


OTHER: dict[str, Any] = {"service": {"name": "other", "namespace": "other"}, "caBundle": "AAAA"}
CONFIGS = [{"url": "https://old.example.com/x", "caBundle": "AAAA"}, {"url": URL.url, "caBundle": "not base64"}, OTHER]
WEBHOOKS = [{"strategy": "Webhook", "webhook": {"clientConfig": config}} for config in CONFIGS]


@pytest.mark.parametrize("target", [SERVICE, URL])
@pytest.mark.parametrize("conversion", [{}, {"strategy": "None"}, *WEBHOOKS])
def test_whatever_stood_there_becomes_ours_by_one_patch(target: Target, conversion: dict[str, Any]) -> None:
    before = installed(**conversion)
    patch = registration_patch(view(before), target, BUNDLE)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "7"}
    after = apply_merge_patch(before, patch)
    assert after["spec"]["conversion"]["strategy"] == "Webhook"
    config = after["spec"]["conversion"]["webhook"]["clientConfig"]
    assert set(config) == ({"url", "caBundle"} if target.url else {"service", "caBundle"})
    assert trusted_by(view(after)) == BUNDLE
    assert registration_patch(view(after), target, BUNDLE) is None
    assert after["spec"]["versions"] == before["spec"]["versions"]


def test_a_crd_of_v1_alone_is_left_as_it_is() -> None:
    assert not needs_conversion(view(crd()))
    assert registration_patch(view(crd()), SERVICE, BUNDLE) is None
    unserved = installed()
    unserved["spec"]["versions"][1]["served"] = False
    assert registration_patch(view(unserved), SERVICE, BUNDLE) is None
