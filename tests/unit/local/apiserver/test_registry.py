from __future__ import annotations

import pytest

from tests.unit.local.apiserver.samples import World, named
from tfoperator.local.apiserver.deletion import DeleteOptions
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.kinds import NAMESPACES, PODS
from tfoperator.local.apiserver.registry import WriteOptions
from tfoperator.local.apiserver.store import Change


def pod(name: str, **spec: object) -> dict[str, object]:
    return {**named(name), "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_a_refused_write_leaves_no_trace() -> None:
    world = World()
    before = world.store.revision

    with pytest.raises(StatusError):
        world.create(PODS, {"metadata": {"name": "a"}, "spec": {}})

    assert world.store.revision == before
    assert world.names(PODS) == []


def test_a_write_that_changes_nothing_wakes_nobody() -> None:
    world = World()
    world.create(PODS, pod("a"))
    heard: list[Change] = []
    world.store.observe(heard.append)

    world.registry.update(PODS, "ns", "a", lambda current: current.copy(), WriteOptions())

    assert heard == []


def test_what_is_stored_is_never_changed_by_an_update() -> None:
    world = World()
    world.create(PODS, pod("a"))
    stored = world.store.get(PODS, "ns/a")
    assert stored is not None
    before = stored.copy()

    world.registry.update(
        PODS,
        "ns",
        "a",
        lambda current: {**current.copy(), "status": {"phase": "Running"}},
        WriteOptions(),
        subresource="status",
    )

    assert stored.obj == before


def test_a_status_of_a_custom_kind_leaves_the_old_version_as_it_was() -> None:
    world = World()
    widget = world.widgets.resource
    world.create(widget, {**named("w"), "spec": {"size": 2}})
    stored = world.store.get(widget, "ns/w")
    assert stored is not None
    before = stored.copy()

    world.registry.update(
        widget,
        "ns",
        "w",
        lambda current: {**current.copy(), "status": {"ready": 1}},
        WriteOptions(),
        subresource="status",
    )

    assert stored.obj == before
    assert world.registry.get(widget, "ns", "w").obj["status"] == {"ready": 1}


def test_a_generated_name_that_is_taken_is_tried_again_and_then_refused() -> None:
    world = World()
    base = "x" * 80

    names = {world.create(PODS, {**pod(""), "metadata": {"generateName": base}})["metadata"]["name"] for _ in range(50)}

    assert len(names) == 50
    assert {len(name) for name in names} == {63}


def test_a_bound_pod_loses_its_grace_when_it_has_ended() -> None:
    world = World()
    world.create(PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=7))
    first = world.registry.delete(PODS, "ns", "a", DeleteOptions())
    deleted_at = first.stored.metadata["deletionTimestamp"]
    world.registry.update(
        PODS, "ns", "a", lambda c: {**c.copy(), "status": {"phase": "Succeeded"}}, WriteOptions(), subresource="status"
    )

    second = world.registry.delete(PODS, "ns", "a", DeleteOptions())

    assert (first.removed, deleted_at) == (False, "2026-01-01T00:00:07Z")
    assert second.removed


def test_a_finalizer_and_a_grace_period_both_have_to_run_out() -> None:
    world = World()
    body = pod("a", nodeName="n")
    body["metadata"]["finalizers"] = ["example.com/x"]  # type: ignore[index]
    world.create(PODS, body)

    world.registry.delete(PODS, "ns", "a", DeleteOptions())
    without = world.registry.update(
        PODS, "ns", "a", lambda c: {**c.copy(), "metadata": {"name": "a", "finalizers": []}}, WriteOptions()
    )
    assert not without.removed
    assert world.registry.delete(PODS, "ns", "a", DeleteOptions(grace_period_seconds=0)).removed


def test_a_namespace_can_be_finalised_by_hand() -> None:
    world = World()
    world.registry.delete(NAMESPACES, "", "ns", DeleteOptions())

    written = world.registry.finalize_namespace("ns", {"metadata": {"name": "ns"}, "spec": {"finalizers": []}})

    assert written.removed
    assert world.names(NAMESPACES) == []
