from tests.support.manifests import owner_reference
from tests.unit.local.apiserver.samples import Json, World
from tfoperator.local.apiserver.registry.deletion import DeleteOptions
from tfoperator.local.apiserver.resource_types import CONFIG_MAPS


def make(world: World, name: str, *owners: Json, block: bool = False) -> Json:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    references = [owner_reference({**owner, **kind}, blockOwnerDeletion=block) for owner in owners]
    made = world.create(CONFIG_MAPS, {"metadata": {"name": name, "ownerReferences": references}})
    world.settle()
    return made


def delete(world: World, name: str, policy: str = "") -> None:
    world.registry.delete(CONFIG_MAPS, "ns", name, DeleteOptions(propagation_policy=policy or None))
    world.settle()


def test_foreground_goes_from_the_leaves_to_the_root_and_does_not_wait_for_dependents_that_do_not_block(
    world: World,
) -> None:
    root = make(world, "root")
    branch = make(world, "branch", root, block=True)
    leaf = make(world, "leaf", branch, block=True)
    world.update(CONFIG_MAPS, "leaf", metadata={**leaf["metadata"], "finalizers": ["example.com/hold"]})
    delete(world, "root", "Foreground")
    assert world.names(CONFIG_MAPS) == ["branch", "leaf", "root"]
    owners = leaf["metadata"]["ownerReferences"]
    world.update(CONFIG_MAPS, "leaf", metadata={"name": "leaf", "ownerReferences": owners})
    world.settle()
    assert world.names(CONFIG_MAPS) == []
    root = make(world, "root")
    make(world, "leaf", root)
    delete(world, "root", "Foreground")
    assert world.names(CONFIG_MAPS) == []


def test_nothing_happens_inside_a_write_and_an_owner_of_a_kind_that_is_not_served_is_believed(world: World) -> None:
    make(world, "leaf", make(world, "root"))
    world.registry.delete(CONFIG_MAPS, "ns", "root", DeleteOptions())
    assert world.names(CONFIG_MAPS) == ["leaf"]
    world.settle()
    assert world.names(CONFIG_MAPS) == []
    reference = {"apiVersion": "example.com/v1", "kind": "Owner", "name": "d", "uid": "u"}
    world.create(CONFIG_MAPS, {"metadata": {"name": "a", "ownerReferences": [reference]}})
    world.settle()
    assert world.names(CONFIG_MAPS) == ["a"]
