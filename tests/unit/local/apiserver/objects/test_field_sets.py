import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local.apiserver.objects.field_managers import Owner, after_update, apply, managed_fields, owned_fields
from tfoperator.local.apiserver.objects.field_sets import (
    MISSING,
    Layout,
    builtin_layout,
    dotted_path,
    fields_of,
    from_json,
    is_item,
    remove,
    to_json,
    value_at,
)
from tfoperator.local.apiserver.resource_types import CONFIG_MAPS, PODS

LAYOUT = builtin_layout("Pod")
NOW = "2026-01-01T00:00:00Z"
NAMES = st.sampled_from(["a", "b", "c"])
ENV = st.lists(st.builds(lambda n, v: {"name": n, "value": v}, NAMES, NAMES), max_size=3, unique_by=lambda e: e["name"])
CONTAINERS = st.lists(
    st.builds(
        lambda name, image, env: {"name": name, "image": image, **({"env": env} if env else {})}, NAMES, NAMES, ENV
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda container: container["name"],
)
LABELS = st.dictionaries(NAMES, NAMES, max_size=2)


def pod_of(labels: dict[str, str], containers: list[Any]) -> dict[str, Any]:
    return {"metadata": {"name": "p", **({"labels": labels} if labels else {})}, "spec": {"containers": containers}}


PODS_OF_ALL_KINDS = st.builds(pod_of, LABELS, CONTAINERS)
ONE, TWO = Owner("one", "Apply"), Owner("two", "Apply")


def stored(obj: dict[str, Any], owned: Any) -> dict[str, Any]:
    entries = managed_fields(owned, (), "v1", NOW)
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


@given(PODS_OF_ALL_KINDS)
def test_a_set_reads_as_it_was_written_and_who_removes_every_field_leaves_nothing(pod: dict[str, Any]) -> None:
    fields = fields_of(pod, LAYOUT)
    assert from_json(to_json(fields)) == fields
    assert all(value_at(pod, path) is not MISSING for path in fields)
    left = copy.deepcopy(pod)
    for path in sorted(fields_of(pod, LAYOUT), key=lambda field: (not is_item(field), len(field))):
        remove(left, path)
    assert fields_of(left, LAYOUT) == frozenset()


@given(PODS_OF_ALL_KINDS, PODS_OF_ALL_KINDS)
def test_the_only_manager_gets_what_it_says_whatever_it_said_before(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    first = apply(PODS, None, before, ONE, LAYOUT, force=False)
    second = apply(PODS, stored(first.obj, first.owned), after, ONE, LAYOUT, force=False)
    assert fields_of(second.obj, LAYOUT) == fields_of(after, LAYOUT) == second.owned[ONE]
    assert all(is_item(p) or value_at(second.obj, p) == value_at(after, p) for p in fields_of(after, LAYOUT))


@given(PODS_OF_ALL_KINDS, PODS_OF_ALL_KINDS)
def test_force_gives_what_it_asks_for_and_takes_nothing_else(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    first = apply(PODS, None, theirs, TWO, LAYOUT, force=False)
    second = apply(PODS, stored(first.obj, first.owned), mine, ONE, LAYOUT, force=True)
    wanted = fields_of(mine, LAYOUT)
    assert all(is_item(path) or value_at(second.obj, path) == value_at(mine, path) for path in wanted)
    assert fields_of(second.obj, LAYOUT) == wanted | fields_of(theirs, LAYOUT)


@given(PODS_OF_ALL_KINDS, PODS_OF_ALL_KINDS)
def test_after_an_update_nobody_owns_what_is_not_there_or_what_another_has_changed(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    first = apply(PODS, None, before, ONE, LAYOUT, force=False)
    owned = after_update(stored(first.obj, first.owned), after, None, Owner("editor"), LAYOUT)
    there = fields_of(after, LAYOUT)
    assert all(fields <= there for fields in owned.values())
    kept = owned.get(ONE, frozenset())
    assert all(is_item(path) or value_at(before, path) == value_at(after, path) for path in kept)


def test_lists_without_good_keys_are_values_paths_are_named_as_by_kubernetes_and_what_stays_keeps_its_time() -> None:
    assert fields_of({"spec": {"args": ["a"]}}, LAYOUT) == {("f:spec", "f:args")}
    twice = {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}
    assert fields_of(twice, LAYOUT) == {("f:spec", "f:containers")}
    path = ("f:spec", "f:containers", 'k:{"name":"main"}', "f:image")
    assert dotted_path(path) == '.spec.containers[name="main"].image'
    owned = {ONE: frozenset({("f:data",)})}
    before = managed_fields(owned, (), "v1", NOW)
    assert managed_fields(owned, before, "v1", "2027-01-01T00:00:00Z") == before


@pytest.mark.parametrize("tree", [{"x": {}}, {"f:a": 1}, {"k:[]": {}}, {"k:{": {}}, {"v:{": {}}, {"": {}}])
def test_what_is_no_set_is_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        from_json(tree)


@pytest.mark.parametrize("entries", ["x", [1], [{"manager": 1}], [{"operation": "Eat"}], [{"fieldsV1": {"x": {}}}]])
def test_managed_fields_that_a_client_has_spoilt_do_not_count(entries: Any) -> None:
    with pytest.raises(ValueError):
        owned_fields(entries)
    obj = {"metadata": {"name": "c"}, "data": {"a": "1"}}
    first = apply(CONFIG_MAPS, None, obj, ONE, Layout({}), force=False)
    assert after_update(stored(obj, first.owned), obj, entries, Owner("editor"), Layout({})) == first.owned
