"""Server-side apply: who owns what, and what becomes of it."""

from typing import Any

from tests.contract.support import CONFIG_MAPS, PODS, TFJOBS, Answer, Json, Space, config_map, pod, tfjob
from tfoperator.kube.protocol.resources import DEPLOYMENTS, Resource
from tfoperator.kube.protocol.verbs import PatchType

APPLY = "application/apply-patch+yaml"


def apply(space: Space, resource: Resource, body: Json, manager: str = "one", **query: Any) -> Answer:
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    asked = "&".join(f"{name}={value}" for name, value in {"fieldManager": manager, **query}.items())
    path = f"{space.path(resource, body['metadata']['name'])}?{asked}"
    return space.http("PATCH", path, whole, content_type=APPLY)


def settings(**data: str) -> Json:
    return {"metadata": {"name": "settings"}, "data": data}


def managers(obj: Json) -> dict[str, str]:
    return {entry["manager"]: entry["operation"] for entry in obj["metadata"]["managedFields"]}


def test_an_apply_creates_then_changes_and_a_third_changes_nothing_nor_does_a_dry_run(space: Space) -> None:
    created = apply(space, CONFIG_MAPS, settings(a="1"))
    changed = apply(space, CONFIG_MAPS, settings(a="2"))
    same = apply(space, CONFIG_MAPS, settings(a="2"))
    assert [answer.code for answer in (created, changed, same)] == [201, 200, 200]
    assert changed.body["data"] == {"a": "2"}
    assert same.body["metadata"]["resourceVersion"] == changed.body["metadata"]["resourceVersion"]
    (entry,) = same.body["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsType"]) == ("one", "Apply", "FieldsV1")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
    assert apply(space, CONFIG_MAPS, settings(a="3"), dryRun="All").body["data"] == {"a": "3"}
    assert space.get(CONFIG_MAPS, "settings")["data"] == {"a": "2"}


def test_what_a_configuration_no_longer_says_goes(space: Space) -> None:
    apply(space, CONFIG_MAPS, {**settings(a="1", b="2"), "metadata": {"name": "settings", "labels": {"x": "y"}}})
    assert apply(space, CONFIG_MAPS, settings(b="2")).body["data"] == {"b": "2"}
    assert "labels" not in space.get(CONFIG_MAPS, "settings")["metadata"]


def test_two_managers_own_their_parts_and_what_both_say_stays_with_one(space: Space) -> None:
    apply(space, CONFIG_MAPS, settings(a="1", shared="s"), "one")
    apply(space, CONFIG_MAPS, settings(b="2", shared="s"), "two")
    left = apply(space, CONFIG_MAPS, settings(a="1"), "one").body
    assert left["data"] == {"a": "1", "b": "2", "shared": "s"}
    assert managers(left) == {"one": "Apply", "two": "Apply"}


def test_a_field_of_another_is_a_conflict_unless_it_is_taken_by_force_or_by_an_update(space: Space) -> None:
    apply(space, CONFIG_MAPS, settings(a="1"), "one")
    refused = apply(space, CONFIG_MAPS, settings(a="2"), "two")
    assert (refused.code, refused.body["reason"]) == (409, "Conflict")
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    assert refused.body["details"]["causes"] == [cause]
    forced = apply(space, CONFIG_MAPS, settings(a="2"), "two", force="true")
    assert (forced.code, forced.body["data"], managers(forced.body)) == (200, {"a": "2"}, {"two": "Apply"})

    path = f"{space.path(CONFIG_MAPS, 'settings')}?fieldManager=editor"
    space.http("PATCH", path, {"data": {"a": "edited"}}, content_type=PatchType.MERGE)
    refused = apply(space, CONFIG_MAPS, settings(a="2", b="2"), "two")
    assert refused.code == 409
    assert 'conflict with "editor" using v1' in refused.body["message"]
    assert apply(space, CONFIG_MAPS, settings(b="2"), "two").body["data"] == {"a": "edited", "b": "2"}


def test_an_object_that_was_created_otherwise_is_taken_over(space: Space) -> None:
    space.create(CONFIG_MAPS, config_map("settings", a="1"))
    assert apply(space, CONFIG_MAPS, settings(a="1", b="2")).body["data"] == {"a": "1", "b": "2"}
    assert apply(space, CONFIG_MAPS, settings(a="changed", b="2")).code == 409


def test_items_of_lists_are_merged_by_their_keys(space: Space) -> None:
    labels = {"app": "web"}

    def deployment(*containers: Json) -> Json:
        template = {"metadata": {"labels": labels}, "spec": {"containers": list(containers)}}
        return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}

    port = {"containerPort": 80}
    first = {"name": "one", "image": "one:1", "ports": [port], "env": [{"name": "A", "value": "1"}]}
    assert apply(space, DEPLOYMENTS, deployment(first), "one").code == 201
    both = apply(space, DEPLOYMENTS, deployment({"name": "two", "image": "two:1"}), "two")
    assert both.code == 200
    changed = apply(space, DEPLOYMENTS, deployment({"name": "one", "image": "one:2", "ports": [port]}), "one")

    assert changed.code == 200, changed.body
    containers = {container["name"]: container for container in changed.body["spec"]["template"]["spec"]["containers"]}
    assert {name: container["image"] for name, container in containers.items()} == {"one": "one:2", "two": "two:1"}
    assert "env" not in containers["one"]
    assert containers["one"]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


def test_containers_of_a_job_are_merged_by_name_and_each_manager_owns_its_own(space: Space) -> None:
    def with_containers(*containers: Json, **replica: Any) -> Json:
        worker = {**replica, "template": {"spec": {"containers": list(containers)}}}
        return {"metadata": {"name": "mnist"}, "spec": {"tfReplicaSpecs": {"Worker": worker}}}

    main = {"name": "tensorflow", "image": "main:1", "env": [{"name": "A", "value": "1"}], "args": ["x"]}
    proxy = {"name": "proxy", "image": "proxy:1"}
    assert apply(space, TFJOBS, with_containers(main, replicas=2), "one").code == 201
    assert apply(space, TFJOBS, with_containers({**proxy, "env": [{"name": "B"}]}), "two").code == 200
    refused = apply(space, TFJOBS, with_containers({**main, "env": [{"name": "A", "value": "2"}]}), "two")
    at = '.spec.tfReplicaSpecs.Worker.template.spec.containers[name="tensorflow"].env'
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (409, at)
    both = apply(space, TFJOBS, with_containers(proxy), "two").body

    [*containers] = both["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    assert containers == [main, proxy]
    owned = {entry["manager"]: entry["fieldsV1"] for entry in both["metadata"]["managedFields"]}
    parts = {"f:replicas": {}}, {}
    for manager, container, more in zip(("one", "two"), (main, proxy), parts, strict=True):
        item = {".": {}, **{f"f:{name}": {} for name in container}}
        named = {"f:containers": {f'k:{{"name":"{container["name"]}"}}': item}}
        worker = {".": {}, **more, "f:template": {"f:spec": named}}
        assert owned[manager] == {"f:spec": {"f:tfReplicaSpecs": {"f:Worker": worker}}}

    gone = apply(space, TFJOBS, {"metadata": {"name": "mnist"}}, "two").body
    assert gone["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"] == [main]


def test_jobs_and_pods_are_applied_too(space: Space) -> None:
    assert apply(space, PODS, pod("alone")).code == 201
    assert apply(space, PODS, pod("alone", {"a": "b"})).body["metadata"]["labels"] == {"a": "b"}
    assert apply(space, TFJOBS, tfjob("mnist", Worker=1)).code == 201
    assert apply(space, TFJOBS, tfjob("mnist", Worker=3)).body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    status = {"metadata": {"name": "mnist"}, "status": {"phase": "Running"}}
    assert "status" not in apply(space, TFJOBS, {**tfjob("mnist", Worker=3), **status}).body
    path = f"{space.path(TFJOBS, 'mnist')}/status?fieldManager="
    for writer, part in (("operator", {"phase": "Running", "ready": "1/3"}), ("progress", {"ready": "3/3"})):
        job = space.http("PATCH", path + writer, {"status": part}, content_type=PatchType.MERGE).body
    assert job["status"] == {"phase": "Running", "ready": "3/3"}
    entry = job["metadata"]["managedFields"][-1]
    assert (managers(job), entry["fieldsV1"]) == ({"one": "Apply", "progress": "Update"}, {"f:status": {}})


def test_what_a_manager_writes_to_the_status_has_an_entry_of_its_own_with_the_subresource(space: Space) -> None:
    apply(space, TFJOBS, tfjob("mnist", Worker=1))
    path, query = space.path(TFJOBS, "mnist"), "?fieldManager=operator"
    for where, change in (("", {"metadata": {"labels": {"a": "b"}}}), ("/status", {"status": {"phase": "Running"}})):
        job = space.http("PATCH", f"{path}{where}{query}", change, content_type=PatchType.MERGE).body
    again = space.http(
        "PATCH", f"{path}/status{query}", {"status": {"ready": "1/1"}}, content_type=PatchType.MERGE
    ).body
    for written in (job, again):
        entries = [(field["manager"], field.get("subresource")) for field in written["metadata"]["managedFields"]]
        assert sorted(entries, key=str) == [("one", None), ("operator", "status"), ("operator", None)]
    other = apply(space, TFJOBS, tfjob("mnist", Worker=2), "two")
    assert other.body["details"]["causes"][0]["message"].startswith('conflict with "one"')


def test_an_apply_says_who_it_is_and_what_is_wrong(space: Space) -> None:
    path = space.path(CONFIG_MAPS, "settings")
    body = {"apiVersion": "v1", "kind": "ConfigMap", **settings(a="1")}

    anonymous = space.http("PATCH", path, body, content_type=APPLY)
    malformed = space.http("PATCH", f"{path}?fieldManager=one", b"[", content_type=APPLY)
    bad = apply(space, TFJOBS, tfjob("bad", Worker=-1))

    assert (anonymous.code, malformed.code, bad.code) == (422, 400, 422)
    assert "fieldManager" in anonymous.body["message"]
    assert "replicas" in bad.body["message"]
