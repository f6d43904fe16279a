from collections.abc import Iterator

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.unit.informers.support import Server, View, api_error
from tfoperator.informers import CONTROLLER_UID_INDEX, InformerGroup, index_by_controller_uid
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.kube.views.objects import Pod


@pytest.fixture
def servers() -> tuple[Server, Server]:
    return Server(), Server()


def marks(obj: Pod) -> list[str]:
    return [obj.metadata.labels["absent"]] if obj.metadata.name == "broken" else []


@pytest.fixture
def group(servers: tuple[Server, Server]) -> Iterator[InformerGroup[Pod]]:
    clock, indexers = FakeClock(), {CONTROLLER_UID_INDEX: index_by_controller_uid, "marks": marks}
    members = {
        namespace: SharedInformer[Pod](server, name=f"pods/{namespace}", clock=clock, indexers=indexers)
        for server, namespace in zip(servers, ("n1", "n2"), strict=True)
    }
    group = InformerGroup(members, name="pods", clock=clock)
    yield group
    assert group.stop(60)


def test_a_group_reads_tells_and_relists_as_one(group: InformerGroup[Pod], servers: tuple[Server, Server]) -> None:
    view = View()
    servers[0].put("a", namespace="n1", owner="u1")
    servers[1].put("b", namespace="n2", owner="u1")
    group.add_handler(view)
    assert not group.has_synced
    assert group.versions == ["", ""]
    group.start()
    assert group.wait_for_sync(5)
    assert group.versions == [servers[0].state["n1/a"], servers[1].state["n2/b"]]
    eventually(lambda: sorted(view.objects) == ["n1/a", "n2/b"])
    assert group.lister.find("n2/b").metadata.name == "b"
    assert len(group.lister.list()) == 2
    assert [obj.metadata.key for obj in group.lister.list("n1")] == ["n1/a"]
    assert group.lister.find("n2/a") is None
    assert [group.version_of("n1"), group.version_of("n2")] == group.versions
    assert [obj.metadata.key for obj in group.lister.by_index(CONTROLLER_UID_INDEX, "u1")] == ["n1/a", "n2/b"]
    for server, namespace in zip(servers, ("n1", "n2"), strict=True):
        server.api.mute("pods")
        server.put("unseen", namespace=namespace)
    group.relist()
    eventually(lambda: len(group.lister.list()) == 4)


def test_a_group_has_synced_when_its_last_member_has(group: InformerGroup[Pod], servers: tuple[Server, Server]) -> None:
    servers[1].failures.extend([api_error(500, "boom")] * 3)
    group.start()
    assert group.informers[0].wait_for_sync(5)
    assert not group.has_synced
    assert group.wait_for_sync(0) is False


def test_a_failed_member_is_the_groups_failure(group: InformerGroup[Pod], servers: tuple[Server, Server]) -> None:
    group.start()
    servers[1].put("broken")
    eventually(lambda: group.failure)
    assert "marks" in str(group.failure)
    assert not group.has_synced
