from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfoperator.local.apiserver.resource_types import PODS, SECRETS, SERVICES
from tfoperator.local.apiserver.storage.store import Compacted, ServedView, Store, StoreChange

WRITES = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=40)
"""Names, and whether they are written or deleted."""


def new_store(history_limit: int = 100) -> Store:
    return Store((PODS, SECRETS, SERVICES), first_revision=10, history_limit=history_limit)


def put(store: Store, name: str) -> int:
    key = f"ns/{name}"
    write = store.create if store.get(PODS, key) is None else store.update
    return write(PODS, key, {"metadata": {"name": name}, "n": store.revision}).revision


def change(store: Store, name: str, is_write: bool) -> None:
    if is_write:
        put(store, name)
    elif store.get(PODS, f"ns/{name}") is not None:
        store.delete(PODS, f"ns/{name}")


def state(store: Store) -> dict[str, int]:
    return {stored.key: stored.revision for stored in store.objects(PODS)}


OLDER_PODS = msgspec.structs.replace(PODS, version="v0")


A: dict[str, Any] = {"metadata": {"name": "a"}}


def with_view() -> Store:
    """A store of pods whose older version counts in `old` what is stored as `n`."""
    view = ServedView(
        OLDER_PODS,
        PODS,
        to_stored=lambda obj: {"metadata": obj["metadata"], "n": obj["old"]},
        from_stored=lambda obj: {"metadata": obj["metadata"], "old": obj["n"]},
    )
    return Store((PODS, OLDER_PODS), views=[view], first_revision=10)


def test_a_view_reads_and_writes_what_is_stored_in_another_version() -> None:
    store = with_view()
    made = store.create(OLDER_PODS, "ns/a", A | {"old": 1})
    start = store.revision
    assert (made.obj["old"], made.revision) == (1, 11)
    stored = store.get(PODS, "ns/a")
    assert (stored.obj["n"], stored.revision, stored.metadata) == (1, 11, made.metadata)
    store.update(PODS, "ns/a", A | {"n": 2})
    shown = store.get(OLDER_PODS, "ns/a")
    assert (shown.obj["old"], shown.revision) == (2, 12)
    assert [stored.obj["old"] for stored in store.objects(OLDER_PODS)] == [2]
    assert [stored.obj["old"] for stored in store.objects_at(OLDER_PODS, start)] == [1]
    assert store.delete(OLDER_PODS, "ns/a", A | {"old": 3}).obj["old"] == 3
    assert store.get(PODS, "ns/a") is store.get(OLDER_PODS, "ns/a") is None
    changes = store.changes_since(OLDER_PODS, 10)
    assert [(c.old and c.old.obj["old"], c.new and c.new.obj["old"]) for c in changes] == [(None, 1), (1, 2), (2, None)]
    assert changes[-1].last.obj["old"] == 3


def test_an_observer_of_a_view_sees_its_version_and_others_the_stored_one() -> None:
    store = with_view()
    observed: list[tuple[str, StoreChange]] = []
    undo = store.observe(lambda change: observed.append(("view", change)), OLDER_PODS)
    store.observe(lambda change: observed.append(("stored", change)), PODS)
    leave = store.observe(lambda change: observed.append(("all", change)))
    store.create(OLDER_PODS, "ns/a", A | {"old": 1})
    received = {who: (change.resource, "old" in change.last.obj) for who, change in observed}
    assert received == {"view": (OLDER_PODS, True), "stored": (PODS, False), "all": (PODS, False)}
    undo()
    store.update(PODS, "ns/a", A | {"n": 2})
    assert [who for who, _ in observed] == ["view", "stored", "all", "stored", "all"]
    leave()
    store.update(PODS, "ns/a", A | {"n": 3})
    assert [who for who, _ in observed][5:] == ["stored"]


@settings(max_examples=60, deadline=None)
@given(WRITES)
def test_every_remembered_revision_can_be_seen_again(writes: list[tuple[str, bool]]) -> None:
    store = new_store()
    states = {store.revision: state(store)}
    for write in writes:
        change(store, *write)
        states[store.revision] = state(store)
    for revision, expected in states.items():
        assert {stored.key: stored.revision for stored in store.objects_at(PODS, revision)} == expected


@settings(max_examples=60, deadline=None)
@given(WRITES, st.integers(0, 40), st.integers(1, 10))
def test_the_changes_since_a_revision_lead_from_it_to_now(
    writes: list[tuple[str, bool]], cut: int, history_limit: int
) -> None:
    store = new_store(history_limit)
    for write in writes[:cut]:
        change(store, *write)
    start, then = store.revision, state(store)
    for write in writes[cut:]:
        change(store, *write)
    try:
        changes = store.changes_since(PODS, start)
    except Compacted:
        assert store.revision - start > history_limit
        return
    for store_change in changes:
        if store_change.new is None:
            del then[store_change.last.key]
        else:
            then[store_change.last.key] = store_change.revision
    assert then == state(store)


def test_what_lies_before_the_history_or_this_server_has_expired() -> None:
    store = new_store(history_limit=3)
    store.create(SECRETS, "ns/s", {"metadata": {"name": "s"}})
    for name in "abcde":
        put(store, name)
    assert [store_change.last.key for store_change in store.changes_since(PODS, 13)] == ["ns/c", "ns/d", "ns/e"]
    assert [store_change.last.key for store_change in store.changes_since(SECRETS, 10)] == ["ns/s"], (
        "each type has a history of its own"
    )
    for expired in (9, 11, 12):
        with pytest.raises(Compacted):
            store.changes_since(PODS, expired)
        with pytest.raises(Compacted):
            store.objects_at(PODS, expired)
    with pytest.raises(Compacted):
        new_store().changes_since(PODS, 9)
    assert new_store().changes_since(PODS, 10) == []


def test_objects_come_in_the_order_of_their_keys_and_by_namespace() -> None:
    store = new_store()
    for key in ("b/x", "a/z", "a/y", "ab/x"):
        store.create(PODS, key, {"metadata": {"name": key[-1]}})
    assert [stored.key for stored in store.objects(PODS)] == ["a/y", "a/z", "ab/x", "b/x"]
    assert [stored.key for stored in store.objects(PODS, "a")] == ["a/y", "a/z"]
