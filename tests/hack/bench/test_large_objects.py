import json

import pytest

from hack.bench.large_objects import KINDS
from tests.unit.operator.test_cached_objects import DECODERS

MOST = 1_400_000
"""Bytes: near the 1.5 MB that etcd takes. API servers add to an object the names of its fields (`managedFields`)."""


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_objects_are_large_and_small_enough_for_an_api_server(kind: str) -> None:
    made = KINDS[kind].make("large-0")
    size = len(json.dumps(made))
    assert 150_000 < size <= MOST
    annotations = made["metadata"].get("annotations", {})
    assert sum(len(key) + len(value) for key, value in annotations.items()) < 256 << 10
    assert all(len(value) <= 63 for value in made["metadata"].get("labels", {}).values())


def test_each_kind_that_operators_watch_is_measured_but_one_that_needs_a_feature_gate() -> None:
    measured = {f"{kind.resource.plural}.{kind.resource.group or 'core'}" for kind in KINDS.values()}
    assert set(DECODERS) - measured == {"podgroups.scheduling.k8s.io"}
