import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.threads import run_at_once
from tests.unit.informers.support import pod
from tfoperator.informers import CONTROLLER_UID_INDEX, ORPHANS_INDEX, index_by_controller_uid, index_orphans
from tfoperator.informers.store import Indexer, IndexFunctionError, Lister, UnknownIndex
from tfoperator.kube.views.objects import HasMetadata, ObjectMeta, OwnerReference, Pod


def index_by_namespace(obj: HasMetadata) -> Sequence[str]:
    return (obj.metadata.namespace,)


OWNERS = {CONTROLLER_UID_INDEX: index_by_controller_uid, ORPHANS_INDEX: index_orphans}
INDEXERS = {**OWNERS, "namespace": index_by_namespace}


@pytest.fixture
def indexer() -> Indexer[Pod]:
    return Indexer(INDEXERS)


def index_values(indexer: Indexer[Pod], name: str) -> list[str]:
    return [*indexer._indexes[name]]


def names(objects: Sequence[Pod]) -> list[str]:
    return [obj.metadata.name for obj in objects]


def test_cluster_scoped_objects_go_by_name_alone() -> None:
    indexer: Indexer[Pod] = Indexer()
    indexer.add(pod("node", namespace=""))
    assert indexer.keys() == ["node"]


def test_a_lister_looks_into_every_cache_and_keeps_the_order_of_the_keys() -> None:
    first, other = Indexer[Pod](), Indexer[Pod]()
    first.add(pod("a", namespace="x"))
    other.add(pod("b", namespace="y"))
    other.add(pod("c", namespace="y"))
    lister = Lister(first, other)
    objects = lister.get_all(["y/c", "x/a", "y/none", "x/none", "y/b"])
    assert [None if obj is None else obj.metadata.name for obj in objects] == ["c", "a", None, None, "b"]
    assert lister.keys() == ["x/a", "y/b", "y/c"]
    assert lister.keys("y") == ["y/b", "y/c"]
    assert lister.keys("") == lister.keys()
    assert [lister.find(key) is not None for key in ("x/a", "y/b", "y/none")] == [True, True, False]


def test_orphans_are_found_by_namespace_and_leave_when_they_are_adopted(indexer: Indexer[Pod]) -> None:
    indexer.add(pod("a"))
    indexer.add(pod("b", namespace="other"))
    assert names(indexer.by_index(ORPHANS_INDEX, "ns")) == ["a"]
    indexer.add(pod("a", owner="u1"))
    assert indexer.by_index(ORPHANS_INDEX, "ns") == []
    assert index_values(indexer, ORPHANS_INDEX) == ["other"]
    assert names(indexer.by_index(CONTROLLER_UID_INDEX, "u1")) == ["a"]
    owners = (OwnerReference(uid="u1"), OwnerReference(uid="u2", controller=False))  # neither of them controls it
    indexer.add(Pod(metadata=ObjectMeta(name="a", namespace="ns", owner_references=owners)))
    assert names(indexer.by_index(ORPHANS_INDEX, "ns")) == ["a"]
    assert index_values(indexer, CONTROLLER_UID_INDEX) == []


def test_an_update_keeps_an_objects_place_in_its_buckets(indexer: Indexer[Pod]) -> None:
    for name in ("a", "b", "c"):
        indexer.add(pod(name, 1, owner="u1"))
    indexer.add(pod("a", 2, owner="u1"))
    assert names(indexer.by_index(CONTROLLER_UID_INDEX, "u1")) == ["a", "b", "c"]


def test_an_index_function_that_fails_leaves_the_store_as_it_was_and_one_that_nobody_knows_is_an_error() -> None:
    def by_colour(obj: Pod) -> Sequence[str]:
        return (obj.metadata.labels["colour"],)

    indexer = Indexer({"namespace": index_by_namespace, "colour": by_colour})
    good = Pod(metadata=ObjectMeta(name="a", namespace="ns", labels={"colour": "red"}))
    indexer.add(good)
    with pytest.raises(IndexFunctionError, match=r"'colour'.*ns/a"):
        indexer.add(pod("a", 2))
    with pytest.raises(IndexFunctionError):
        indexer.replace([pod("b")])
    assert indexer.list() == [good]
    assert indexer.by_index("colour", "red") == [good]
    assert indexer.by_index("namespace", "ns") == [good]
    with pytest.raises(UnknownIndex, match=r"'size'.*'colour', 'namespace'"):
        indexer.by_index("size", "1")


def test_a_value_that_an_index_function_repeats_counts_once() -> None:
    indexer: Indexer[Pod] = Indexer({"twice": lambda obj: ("x", "x")})
    indexer.add(pod("a"))
    assert len(indexer.by_index("twice", "x")) == 1
    indexer.delete("ns/a")
    assert index_values(indexer, "twice") == []


PODS = st.tuples(st.sampled_from("abc"), st.sampled_from(["n1", "n2"]), st.sampled_from(["", "u1", "u2"]))
OPERATION = st.tuples(st.sampled_from(["add", "delete", "replace"]), st.lists(PODS, min_size=1, max_size=4))


@given(st.lists(OPERATION, max_size=20))
def test_indexes_always_equal_a_scan(operations: list[tuple[str, list[tuple[str, str, str]]]]) -> None:
    indexer = Indexer(INDEXERS)
    expected: dict[str, Pod] = {}
    for operation, triples in operations:
        objects = [pod(name, namespace=namespace, owner=owner) for name, namespace, owner in triples]
        if operation == "replace":
            indexer.replace(objects)
            expected = {obj.metadata.key: obj for obj in objects}
        for obj in objects:
            if operation == "add":
                indexer.add(obj)
                expected[obj.metadata.key] = obj
            elif operation == "delete":
                indexer.delete(obj.metadata.key)
                expected.pop(obj.metadata.key, None)
    assert {obj.metadata.key: obj for obj in indexer.list()} == expected
    for name, function in INDEXERS.items():
        scan: dict[str, set[str]] = {}
        for key, obj in expected.items():
            for value in function(obj):
                scan.setdefault(value, set()).add(key)
        indexed = {value: indexer.by_index(name, value) for value in index_values(indexer, name)}
        assert {value: {obj.metadata.key for obj in objects} for value, objects in indexed.items()} == scan
        assert all(expected[obj.metadata.key] is obj for objects in indexed.values() for obj in objects)


def test_readers_see_an_object_in_the_store_and_in_its_indexes_or_in_neither(indexer: Indexer[Pod]) -> None:
    done = threading.Event()
    torn: list[str] = []

    def read() -> None:
        while not done.is_set():
            for owner in ("u1", "u2"):
                for obj in indexer.by_index(CONTROLLER_UID_INDEX, owner):
                    if obj.metadata.owner_references[0].uid != owner:
                        torn.append(obj.metadata.key)

    def write() -> None:
        for turn in range(2000):
            indexer.add(pod("a", turn, owner=f"u{turn % 2 + 1}"))
        done.set()

    run_at_once(*[read] * 3, write)
    assert torn == []
