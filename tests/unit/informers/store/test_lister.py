from __future__ import annotations

import pytest

from tests.unit.informers.support import pod
from tfoperator.informers import (
    CONTROLLER_UID_INDEX,
    Indexer,
    Lister,
    UnknownIndex,
    index_by_controller_uid,
)
from tfoperator.kube.objects import Pod


def filled() -> Indexer[Pod]:
    indexer = Indexer({CONTROLLER_UID_INDEX: index_by_controller_uid})
    for namespace, name in (("n1", "a"), ("n1", "b"), ("n2", "a")):
        indexer.add(pod(name, namespace=namespace))
    return indexer


def test_find_gives_an_object_or_none() -> None:
    lister = Lister(filled())
    assert lister.find("n2/a").metadata.key == "n2/a"
    assert lister.find("n2/b") is None


def test_list_is_of_a_namespace_or_of_all() -> None:
    lister = Lister(filled())
    assert [obj.metadata.key for obj in lister.list("n1")] == ["n1/a", "n1/b"]
    assert len(lister.list()) == 3
    assert lister.list("n3") == []


def test_a_lister_over_several_stores_reads_them_as_one() -> None:
    other = Indexer({CONTROLLER_UID_INDEX: index_by_controller_uid})
    other.add(pod("z", namespace="n9", owner="u1"))
    lister = Lister(filled(), other)
    assert lister.find("n9/z").metadata.name == "z"
    assert len(lister.list()) == 4
    assert [obj.metadata.key for obj in lister.by_index(CONTROLLER_UID_INDEX, "u1")] == ["n9/z"]
    with pytest.raises(UnknownIndex):
        lister.by_index("colour", "red")
