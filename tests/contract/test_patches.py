from tests.contract.support import CONFIG_MAPS, PODS, TFJOBS, Space, config_map, pod, refused, tfjob
from tfoperator.kube.protocol.errors import ConflictError, InvalidError
from tfoperator.kube.protocol.resources import SERVICES
from tfoperator.kube.protocol.verbs import PatchType


def test_a_merge_patch_sets_removes_and_leaves_alone(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a", {"keep": "1", "drop": "2"}, old="x", stay="y"))
    patched = space.patch(
        CONFIG_MAPS, "a", {"metadata": {"labels": {"drop": None, "new": "3"}}, "data": {"old": None, "more": "z"}}
    )
    assert patched["metadata"]["labels"] == {"keep": "1", "new": "3"}
    assert patched["data"] == {"stay": "y", "more": "z"}


def test_a_merge_patch_replaces_lists(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    conditions = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "True"}]
    space.set_status(TFJOBS, "a", {"conditions": conditions})
    patched = space.set_status(TFJOBS, "a", {"conditions": conditions[:1]})
    assert [c["type"] for c in patched["status"]["conditions"]] == ["Created"]


def test_a_patch_with_a_stale_version_conflicts_and_none_changes_the_uid_or_the_name(space: Space) -> None:
    version = space.create(CONFIG_MAPS, config_map("a", key="1"))["metadata"]["resourceVersion"]
    space.patch(CONFIG_MAPS, "a", {"metadata": {"resourceVersion": version}, "data": {"key": "2"}})
    with refused(ConflictError, "the object has been modified"):
        space.patch(CONFIG_MAPS, "a", {"metadata": {"resourceVersion": version}, "data": {"key": "3"}})
    with refused(InvalidError, "metadata.uid", "field is immutable"):
        space.patch(CONFIG_MAPS, "a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "data": {"k": "v"}})
    change = {"metadata": {"name": "b"}}
    answer = space.http("PATCH", space.path(CONFIG_MAPS, "a"), change, content_type=PatchType.MERGE)
    assert answer.code in (400, 422)
    assert space.names(CONFIG_MAPS, field_selector="metadata.name=b") == []


def test_a_json_patch_runs_its_operations_in_order_and_changes_nothing_where_one_does_not_apply(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a", x="1"))
    operations = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "add", "path": "/data/y", "value": "2"},
        {"op": "move", "from": "/data/x", "path": "/data/z"},
        {"op": "replace", "path": "/data/y", "value": "3"},
    ]
    for wrong in ({"op": "test", "path": "/data/z", "value": "9"}, {"op": "remove", "path": "/data/nope"}):
        with refused(InvalidError):
            space.json_patch(CONFIG_MAPS, "a", *operations, wrong)
    assert space.get(CONFIG_MAPS, "a")["data"] == {"x": "1"}
    assert space.json_patch(CONFIG_MAPS, "a", *operations)["data"] == {"y": "3", "z": "1"}


def test_a_json_patch_can_not_multiply_what_it_copies(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a", x="x" * 500, y=""))
    path = space.path(CONFIG_MAPS, "a")

    doubled = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(20)]
    answer = space.http("PATCH", path, doubled, content_type=PatchType.JSON)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")

    many = [{"op": "test", "path": "/data/y", "value": ""}] * 10_001
    answer = space.http("PATCH", path, many, content_type=PatchType.JSON)
    assert (answer.code, answer.body["reason"]) == (413, "RequestEntityTooLarge")
    assert "The allowed maximum operations in a JSON patch is 10000, got 10001" in answer.body["message"]


def test_a_patch_that_can_not_be_read_is_a_bad_request_and_its_content_type_is_known(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a"))
    path = space.path(CONFIG_MAPS, "a")
    assert space.http("PATCH", path, b"{", content_type=PatchType.MERGE).code == 400
    assert space.http("PATCH", path, b'{"op":"add"}', content_type=PatchType.JSON).code == 400
    nested = b'{"data":' * 20_000 + b"1" + b"}" * 20_000
    assert space.http("PATCH", path, nested, content_type=PatchType.MERGE).code in (400, 422)
    assert space.http("PATCH", path, {}, content_type="application/json").code == 415
    space.create(TFJOBS, tfjob("a"))
    strategic = space.http("PATCH", space.path(TFJOBS, "a"), {}, content_type=PatchType.STRATEGIC)
    assert strategic.code == 415, "custom kinds have none"


def test_a_strategic_patch_merges_containers_by_name_and_conditions_by_type(space: Space) -> None:
    space.create(PODS, pod("a"))

    image = {"spec": {"containers": [{"name": "main", "image": "example.invalid/x:2"}]}}
    patched = space.strategic(PODS, "a", image)
    assert [(c["name"], c["image"]) for c in patched["spec"]["containers"]] == [("main", "example.invalid/x:2")]
    assert patched["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]

    for kind in ("Ready", "Initialized"):
        status = {"status": {"conditions": [{"type": kind, "status": "True"}]}}
        space.patch(PODS, "a", status, patch_type=PatchType.STRATEGIC, subresource="status")
    last = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    patched = space.patch(PODS, "a", last, patch_type=PatchType.STRATEGIC, subresource="status")
    states = {c["type"]: c["status"] for c in patched["status"]["conditions"]}
    assert states == {"Ready": "False", "Initialized": "True"}


def test_a_strategic_patch_knows_its_directives(space: Space) -> None:
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    space.create(SERVICES, {"metadata": {"name": "s", "labels": {"x": "y"}}, "spec": {"ports": ports}})
    removed = space.strategic(SERVICES, "s", {"spec": {"ports": [{"port": 1, "$patch": "delete"}]}})
    assert [p["port"] for p in removed["spec"]["ports"]] == [2]
    order = {"$setElementOrder/ports": [{"port": 3}, {"port": 2}], "ports": [{"name": "c", "port": 3}]}
    ordered = space.strategic(SERVICES, "s", {"spec": order})
    assert [p["port"] for p in ordered["spec"]["ports"]] == [3, 2]
    replaced = space.strategic(SERVICES, "s", {"metadata": {"labels": {"$patch": "replace", "only": "this"}}})
    assert replaced["metadata"]["labels"] == {"only": "this"}


def test_a_strategic_patch_adds_and_removes_finalizers_and_owners(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("a"))
    for name in ("one", "two"):
        space.strategic(CONFIG_MAPS, "a", {"metadata": {"finalizers": [f"example.com/{name}"]}})

    both = space.get(CONFIG_MAPS, "a")["metadata"]["finalizers"]
    left = space.strategic(CONFIG_MAPS, "a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}})
    none = space.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}})

    assert both == ["example.com/two", "example.com/one"], "what a patch names comes first"
    assert left["metadata"]["finalizers"] == ["example.com/two"]
    assert "finalizers" not in none["metadata"]


def test_a_patch_is_validated_like_any_write(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    with refused(InvalidError, "replicas"):
        space.patch(TFJOBS, "a", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": -1}}}})
    with refused(InvalidError, "metadata.labels"):
        space.patch(TFJOBS, "a", {"metadata": {"labels": {"a": "b c"}}})
