from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.kube.pods import running_pod
from tfoperator.kube.identity import decode_identity


def encoded(obj: Any) -> bytes:
    return json.dumps(obj).encode()


def test_an_identity_says_who_an_object_is_and_who_controls_it() -> None:
    pod = running_pod(7)
    identity = decode_identity(encoded(pod))
    assert identity.key == f"team-a/{pod['metadata']['name']}"
    assert identity.metadata.uid == pod["metadata"]["uid"]
    assert identity.metadata.resource_version == pod["metadata"]["resourceVersion"]
    assert identity.controller_uid == pod["metadata"]["ownerReferences"][0]["uid"]


@pytest.mark.parametrize("owners", [[], [{"uid": "x"}], [{"uid": "x", "controller": False}]])
def test_who_owns_without_controlling_does_not_count(owners: list[dict[str, Any]]) -> None:
    identity = decode_identity(encoded({"metadata": {"name": "node", "ownerReferences": owners}}))
    assert (identity.key, identity.controller_uid) == ("node", "")


def test_the_first_controller_counts_as_in_the_views_of_caches() -> None:
    owners = [{"uid": "a"}, {"uid": "b", "controller": True}]
    identity = decode_identity(encoded({"metadata": {"name": "x", "namespace": "n", "ownerReferences": owners}}))
    assert identity.controller_uid == "b"
