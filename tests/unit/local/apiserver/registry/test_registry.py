import pytest

from tests.unit.local.apiserver.samples import Json, World, named, widgets
from tfoperator.local.apiserver.errors import StatusError
from tfoperator.local.apiserver.registry.deletion import DeleteOptions
from tfoperator.local.apiserver.resource_types import NAMESPACES, PODS, SERVICE_ACCOUNTS, ResourceType


def pod(name: str, **spec: object) -> Json:
    return {**named(name), "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_a_refused_write_leaves_no_trace_and_a_generated_name_that_is_taken_is_tried_again(world: World) -> None:
    before = world.store.revision
    with pytest.raises(StatusError):
        world.create(PODS, {"metadata": {"name": "a"}, "spec": {}})
    assert world.store.revision == before
    assert world.names(PODS) == []
    base = "x" * 80
    names = {world.create(PODS, {**pod(""), "metadata": {"generateName": base}})["metadata"]["name"] for _ in range(50)}
    assert len(names) == 50
    assert {len(name) for name in names} == {63}


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [(PODS, pod("a"), {"phase": "Running"}), (widgets().resource, {**named("a"), "spec": {"size": 2}}, {"ready": 1})],
)
def test_what_is_stored_is_never_changed_by_an_update(
    world: World, kind: ResourceType, body: Json, status: Json
) -> None:
    world.create(kind, body)
    stored = world.store.get(kind, "ns/a")
    before = stored.copy()
    world.update(kind, "a", subresource="status", status=status)
    assert stored.obj == before
    assert world.registry.get(kind, "ns", "a").obj["status"].items() >= status.items()


def test_a_bound_pod_has_grace_until_it_and_its_finalizers_have_gone_and_a_namespace_goes_by_hand(world: World) -> None:
    world.create(PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=7))
    first = world.registry.delete(PODS, "ns", "a", DeleteOptions())
    assert (first.removed, first.stored.metadata["deletionTimestamp"]) == (False, "2026-01-01T00:00:07Z")
    world.update(PODS, "a", subresource="status", status={"phase": "Succeeded"})
    assert world.registry.delete(PODS, "ns", "a", DeleteOptions()).removed
    world.create(PODS, pod("a", nodeName="n") | {"metadata": {"name": "a", "finalizers": ["example.com/x"]}})
    world.registry.delete(PODS, "ns", "a", DeleteOptions())
    assert not world.update(PODS, "a", metadata={"name": "a", "finalizers": []}).removed
    assert world.registry.delete(PODS, "ns", "a", DeleteOptions(grace_period_seconds=0)).removed
    world.registry.delete(NAMESPACES, "", "ns", DeleteOptions())
    assert world.registry.finalize_namespace("ns", {"metadata": {"name": "ns"}, "spec": {"finalizers": []}}).removed
    assert world.names(NAMESPACES) == []


def test_a_pod_needs_its_service_account_but_the_default_one(world: World) -> None:
    world.create(PODS, pod("a", serviceAccountName="default"))
    with pytest.raises(StatusError) as caught:
        world.create(PODS, pod("b", serviceAccountName="trainer"))
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert 'service account ns/trainer: serviceaccount "trainer" not found' in caught.value.message
    world.create(SERVICE_ACCOUNTS, named("trainer"))
    # The older member is the same account.
    assert world.create(PODS, pod("b", serviceAccount="trainer"))["spec"]["serviceAccountName"] == "trainer"


def test_a_stored_pod_that_breaks_a_rule_can_still_be_written(world: World) -> None:
    world.create(PODS, pod("a"))
    world.store.get(PODS, "ns/a").obj["spec"]["containers"][0]["image"] = "i "
    assert world.update(PODS, "a", subresource="status", status={"phase": "Running"}).stored.obj["status"]
    assert world.update(PODS, "a", metadata={"name": "a", "labels": {"b": "c"}}).stored.metadata["labels"]
