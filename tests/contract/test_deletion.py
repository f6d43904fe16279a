import pytest

from tests.contract.support import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    TFJOBS,
    Json,
    Space,
    config_map,
    decode,
    owned_by,
    pod,
    refused,
    tfjob,
)
from tests.support.cluster import find
from tests.support.eventually import eventually
from tfoperator.kube.protocol.errors import ApiError, ConflictError, InvalidError, NotFoundError
from tfoperator.kube.protocol.resources import SECRETS, SERVICES

COLLECTED = 90.0  # seconds; a real garbage collector looks for new kinds, such as ours, every 30
SOMEBODY = "00000000-0000-0000-0000-000000000000"


def held(body: Json) -> Json:
    """The object with a finalizer."""
    return {**body, "metadata": {**body["metadata"], "finalizers": ["example.com/hold"]}}


def test_a_delete_removes_what_its_preconditions_mean(space: Space) -> None:
    made = space.create(SECRETS, {"metadata": {"name": "a"}})["metadata"]
    with refused(ConflictError, "UID"):
        space.delete(SECRETS, "a", uid=SOMEBODY)
    with refused(ConflictError):
        space.delete(SECRETS, "a", resource_version="1")
    with refused(ApiError, "propagationPolicy"):
        space.delete(SECRETS, "a", propagation_policy="Sideways")
    space.delete(SECRETS, "a", uid=made["uid"], resource_version=made["resourceVersion"])
    with refused(NotFoundError):
        space.get(SECRETS, "a")
    again = space.create(SECRETS, {"metadata": {"name": "a"}})["metadata"]
    answer = space.http("DELETE", space.path(SECRETS, "a"))
    assert (answer.code, answer.body["status"]) == (200, "Success")
    assert answer.body["details"] == {"name": "a", "kind": "secrets", "uid": again["uid"]}


def test_a_collection_is_deleted_by_label(space: Space) -> None:
    for index in range(4):
        space.create(SECRETS, {"metadata": {"name": f"s{index}", "labels": {"odd": str(index % 2)}}})
    space.client.delete_collection(SECRETS, space.namespace, label_selector="odd=1")
    assert space.names(SECRETS) == ["s0", "s2"]


def test_a_finalizer_holds_an_object_which_nobody_revives_until_it_is_removed(space: Space) -> None:
    space.create(TFJOBS, held(tfjob("a")))
    space.delete(TFJOBS, "a")
    shown = space.get(TFJOBS, "a")["metadata"]
    assert (bool(shown["deletionTimestamp"]), shown["deletionGracePeriodSeconds"]) == (True, 0)
    patched = space.patch(TFJOBS, "a", {"metadata": {"deletionTimestamp": None, "labels": {"still": "writable"}}})
    assert patched["metadata"]["deletionTimestamp"]
    with refused(InvalidError, "metadata.finalizers", "no new finalizers"):
        space.patch(TFJOBS, "a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    space.patch(TFJOBS, "a", {"metadata": {"finalizers": []}})
    assert not space.exists(TFJOBS, "a")


def test_what_an_owner_leaves_is_collected_down_the_generations(space: Space) -> None:
    owner = space.create(TFJOBS, tfjob("owner"))
    for name in ("a", "b"):
        space.create(PODS, owned_by(owner, pod(name), controller=True, blockOwnerDeletion=True))
    ports = {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
    space.create(SERVICES, owned_by(owner, ports))
    child = space.create(CONFIG_MAPS, owned_by(owner, config_map("child")))
    child |= {"apiVersion": "v1", "kind": "ConfigMap"}
    space.create(CONFIG_MAPS, owned_by(child, config_map("grandchild")))
    space.create(PODS, pod("stranger"))
    space.delete(TFJOBS, "owner", propagation_policy="Background")
    eventually(lambda: space.names(PODS) == ["stranger"] and space.names(SERVICES) == [], within=COLLECTED)
    eventually(lambda: not {"child", "grandchild"} & set(space.names(CONFIG_MAPS)), within=COLLECTED)


def test_an_object_lives_as_long_as_one_of_its_owners(space: Space) -> None:
    first, second = (space.create(TFJOBS, tfjob(name)) for name in ("first", "second"))
    body = owned_by(first, config_map("shared"))
    body["metadata"]["ownerReferences"] += owned_by(second, config_map("x"))["metadata"]["ownerReferences"]
    space.create(CONFIG_MAPS, body)

    space.delete(TFJOBS, "first")

    def has_only_second_owner() -> bool:
        references = space.get(CONFIG_MAPS, "shared")["metadata"]["ownerReferences"]
        return [reference["name"] for reference in references] == ["second"]

    eventually(has_only_second_owner, within=COLLECTED)
    space.delete(TFJOBS, "second")
    eventually(lambda: not space.exists(CONFIG_MAPS, "shared"), within=COLLECTED)


@pytest.mark.parametrize("name", ["ghost", "owner"])
def test_an_owner_that_never_was_is_no_owner_also_if_another_one_has_its_name(space: Space, name: str) -> None:
    space.create(TFJOBS, tfjob("owner"))
    other = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": name, "uid": SOMEBODY}}
    space.create(CONFIG_MAPS, owned_by(other, config_map("a")))
    eventually(lambda: not space.exists(CONFIG_MAPS, "a"), within=COLLECTED)


def wait_for_the_collector(space: Space) -> None:
    """Wait until the garbage collector knows all pods made so far: it sees pods in order, and it has seen a later pod.

    The real collector takes a pod that it has not seen for no dependent: it would not make an orphan of it, nor wait
    for it.
    """
    owner = space.create(TFJOBS, tfjob("seen"))
    space.create(PODS, owned_by(owner, pod("seen"), controller=True))
    space.delete(TFJOBS, "seen", propagation_policy="Background")
    eventually(lambda: not space.exists(PODS, "seen"), within=COLLECTED)


def test_orphans_lose_their_owner_and_live(space: Space) -> None:
    owner = space.create(TFJOBS, tfjob("owner"))
    space.create(PODS, owned_by(owner, pod("a"), controller=True))
    wait_for_the_collector(space)
    space.delete(TFJOBS, "owner", propagation_policy="Orphan")
    eventually(lambda: not space.exists(TFJOBS, "owner"), within=COLLECTED)
    assert "ownerReferences" not in space.get(PODS, "a")["metadata"]


def test_a_foreground_deletion_waits_for_the_dependents_that_block_it(space: Space) -> None:
    owner = space.create(TFJOBS, tfjob("owner"))
    space.create(PODS, owned_by(owner, pod("a", nodeName="node-1"), controller=True, blockOwnerDeletion=True))
    wait_for_the_collector(space)

    space.delete(TFJOBS, "owner", propagation_policy="Foreground")
    held = space.get(TFJOBS, "owner")["metadata"]
    eventually(lambda: "deletionTimestamp" in space.get(PODS, "a")["metadata"], within=COLLECTED)
    still = space.exists(TFJOBS, "owner")
    space.delete(PODS, "a", grace_period_seconds=0)

    assert held["finalizers"] == ["foregroundDeletion"]
    assert still
    eventually(lambda: not space.exists(TFJOBS, "owner"), within=COLLECTED)


def test_owner_references_have_to_be_complete_and_name_one_controller(space: Space) -> None:
    owner = space.create(TFJOBS, tfjob("owner"))
    nameless = owned_by({**owner, "metadata": {"name": "", "uid": "x"}}, config_map("a"))
    two = owned_by(owner, config_map("a"), controller=True)
    other = {**two["metadata"]["ownerReferences"][0], "uid": SOMEBODY, "name": "other"}
    two["metadata"]["ownerReferences"].append(other)

    with refused(InvalidError, "metadata.ownerReferences"):
        space.create(CONFIG_MAPS, nameless)
    with refused(InvalidError, "metadata.ownerReferences", "Only one reference can have Controller set to true"):
        space.create(CONFIG_MAPS, two)


def test_a_namespace_takes_its_content_with_it(space: Space) -> None:
    client, name = space.client, f"{space.namespace}-doomed"
    client.create(NAMESPACES, "", {"metadata": {"name": name}}, decode)
    doomed = Space(client, space.http, space.kubeconfig, name)
    doomed.create(CONFIG_MAPS, held(config_map("held")))
    doomed.create(PODS, pod("a"))
    doomed.create(TFJOBS, tfjob("a"))

    client.delete(NAMESPACES, "", name)
    phase = client.get(NAMESPACES, "", name, decode)["status"]["phase"]
    with refused(ApiError, "because it is being terminated"):
        doomed.create(CONFIG_MAPS, config_map("late"))
    eventually(lambda: not doomed.names(PODS) and not doomed.names(TFJOBS), within=60)
    doomed.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}})

    assert phase == "Terminating"
    eventually(lambda: not find(client, NAMESPACES, "", name), within=60)
