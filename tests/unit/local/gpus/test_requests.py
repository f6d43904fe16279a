from __future__ import annotations

from typing import Any

import pytest

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.local.gpus.requests import asked_for, needed, share


def wants(name: str, number: Any, member: str = "limits") -> dict[str, Any]:
    return container(name, resources={member: {"nvidia.com/gpu": number}})


@pytest.mark.parametrize(("number", "asked"), [(2, 2), ("2", 2), ("1k", 1000), ("500m", 0), ("x", 0), (0, 0)])
def test_whole_devices_are_asked_for(number: Any, asked: int) -> None:
    assert asked_for(view(manifest("p", wants("c", number))).spec.containers[0]) == asked


def test_a_request_alone_counts_as_a_limit() -> None:
    assert needed(view(manifest("p", wants("c", 3, "requests")))) == 3


def test_containers_have_devices_of_their_own_and_init_containers_those_of_later_ones() -> None:
    pod = view(manifest("p", wants("a", 1), container("b"), wants("c", 2), initContainers=[wants("i", 2)]))
    assert needed(pod) == 3
    shares = {one.name: share(pod, one, "xyz") for one in (*pod.spec.containers, *(pod.spec.init_containers or ()))}
    assert shares == {"a": ("x",), "b": (), "c": ("y", "z"), "i": ("x", "y")}


def test_a_hungry_init_container_decides() -> None:
    assert needed(view(manifest("p", wants("a", 1), initContainers=[wants("i", 4)]))) == 4
