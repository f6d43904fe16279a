"""v1alpha2 beside v1, whatever converts: a webhook on the real API server, the embedded server itself."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.contract.support import TFJOBS, Json, Space, changes, happenings, refused, seen, tfjob
from tests.support.webhook import V1ALPHA2
from tests.unit.api.conversion.versions import valid_v1_specs, valid_v1alpha2_specs
from tests.unit.api.samples import FULL_SPEC, PEER_STATUS, TEMPLATE
from tfoperator.api.conversion import V1_ONLY
from tfoperator.kube.protocol.errors import ConflictError, InvalidError, ServerError

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"

TYPES = "the types are PS, Worker, Chief, Master, Eval, Evaluator, Local"


def older(name: str, **replicas: int) -> Json:
    return tfjob(name, **replicas) | {"apiVersion": V1ALPHA2.api_version}


def full(name: str) -> Json:
    return tfjob(name) | {"spec": FULL_SPEC}


def stored(space: Space, name: str) -> Json:
    return space.get(TFJOBS, name)


def test_both_versions_are_discovered_and_v1_is_preferred(space: Space) -> None:
    group = space.http("GET", "/apis/kubeflow.org").body
    assert group["preferredVersion"]["version"] == "v1"
    assert {version["version"] for version in group["versions"]} == {"v1", "v1alpha2"}
    resources = {
        resource["name"]: resource for resource in space.http("GET", "/apis/kubeflow.org/v1alpha2").body["resources"]
    }
    assert {"tfjobs", "tfjobs/status", "tfjobs/scale"} == set(resources)
    assert (resources["tfjobs"]["kind"], resources["tfjobs"]["shortNames"]) == ("TFJob", ["tfj"])


def test_an_older_job_is_stored_as_v1_and_read_back_as_it_was(space: Space) -> None:
    job = older("mnist", Worker=2, Eval=1)
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    worker["template"] = {"spec": {**worker["template"]["spec"], "restartPolicy": "OnFailure"}}
    made = space.create(V1ALPHA2, job)
    assert made["apiVersion"] == "kubeflow.org/v1alpha2"
    assert set(made["spec"]["tfReplicaSpecs"]) == {"Worker", "Eval"}
    assert made["spec"]["tfReplicaSpecs"]["Eval"]["restartPolicy"] == "Always"
    hub = stored(space, "mnist")
    assert hub["apiVersion"] == "kubeflow.org/v1"
    assert set(hub["spec"]["tfReplicaSpecs"]) == {"Worker", "Evaluator"}
    policy = hub["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"]
    assert policy == "OnFailure", "the template's goes before the default"
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        assert hub["metadata"][field] == made["metadata"][field]
    assert space.get(V1ALPHA2, "mnist") == made


def test_a_master_is_the_same_in_both_versions(space: Space) -> None:
    made = space.create(V1ALPHA2, older("led", Master=1, PS=1))
    assert set(made["spec"]["tfReplicaSpecs"]) == {"Master", "PS"}
    assert set(stored(space, "led")["spec"]["tfReplicaSpecs"]) == {"Master", "PS"}
    assert space.get(V1ALPHA2, "led") == made


def test_what_only_v1_can_say_survives_an_edit_in_the_older_version(space: Space) -> None:
    before = space.create(TFJOBS, full("full"))
    shown = space.get(V1ALPHA2, "full")
    assert shown["spec"]["cleanPodPolicy"] == "Running"
    assert V1_ONLY in shown["metadata"]["annotations"]
    shown["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 5
    space.replace(V1ALPHA2, shown)
    after = stored(space, "full")
    assert after["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 5
    after["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 3
    assert after["spec"] == before["spec"]
    assert V1_ONLY not in (after["metadata"].get("annotations") or {})
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


def test_patches_speak_the_version_that_they_are_sent_to_and_scale_workers_too(space: Space) -> None:
    made = space.create(V1ALPHA2, older("patched", Worker=1, Eval=1))
    same = space.patch(V1ALPHA2, "patched", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], "nothing has changed"
    space.patch(V1ALPHA2, "patched", {"spec": {"tfReplicaSpecs": {"Eval": {"replicas": 2}}, "cleanPodPolicy": "All"}})
    operation = {"op": "replace", "path": "/spec/tfReplicaSpecs/Worker/replicas", "value": 4}
    answer = space.json_patch(V1ALPHA2, "patched", operation)
    assert answer["spec"]["cleanPodPolicy"] == "All"
    spec = stored(space, "patched")["spec"]
    assert spec["runPolicy"]["cleanPodPolicy"] == "All"
    replicas = {name: replica["replicas"] for name, replica in spec["tfReplicaSpecs"].items()}
    assert replicas == {"Worker": 4, "Evaluator": 2}
    scale = space.http("GET", space.path(V1ALPHA2, "patched", "scale")).body
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 4)
    space.patch(V1ALPHA2, "patched", {"spec": {"replicas": 3}}, subresource="scale")
    assert stored(space, "patched")["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3


def test_a_status_is_read_and_written_in_either_version(space: Space) -> None:
    space.create(TFJOBS, full("status"))
    space.set_status(TFJOBS, "status", {**PEER_STATUS, "phase": "Running"})
    status = space.get(V1ALPHA2, "status")["status"]
    assert set(status["tfReplicaStatuses"]) == {"Worker", "PS"}
    assert "replicaStatuses" not in status
    assert status["phase"] == "Running"
    change = {"status": {"tfReplicaStatuses": {"Eval": {"active": 1, "restarts": 2}}}}
    space.patch(V1ALPHA2, "status", change, subresource="status")
    hub = stored(space, "status")
    assert hub["status"]["replicaStatuses"]["Evaluator"] == {"active": 1, "restarts": 2}
    assert hub["status"]["conditions"] == PEER_STATUS["conditions"]
    assert hub["spec"]["runPolicy"]["backoffLimit"] == 4


def test_a_watch_in_either_version_sees_the_same_changes(space: Space) -> None:
    with space.watch(V1ALPHA2) as old_events, space.watch(TFJOBS) as new_events:
        space.create(TFJOBS, tfjob("watched", Evaluator=1))
        space.patch(V1ALPHA2, "watched", {"metadata": {"labels": {"a": "b"}}})
        space.delete(V1ALPHA2, "watched")
        kinds = [("ADDED", "watched"), ("MODIFIED", "watched"), ("DELETED", "watched")]
        assert changes(new_events, 3) == kinds
        old_changes = happenings(old_events, 3)
    assert [seen(event) for event in old_changes] == kinds
    for event in old_changes:
        assert event.object is not None
        assert event.object["apiVersion"] == "kubeflow.org/v1alpha2"
        assert set(event.object["spec"]["tfReplicaSpecs"]) == {"Eval"}


def test_lists_select_and_page_in_the_older_version(space: Space) -> None:
    for number in range(3):
        space.create(TFJOBS, tfjob(f"job-{number}", Evaluator=1) | {"metadata": {"name": f"job-{number}"}})
    page = space.http("GET", space.path(V1ALPHA2) + "?limit=2").body
    assert (page["apiVersion"], page["kind"]) == ("kubeflow.org/v1alpha2", "TFJobList")
    assert [set(item["spec"]["tfReplicaSpecs"]) for item in page["items"]] == [{"Eval"}, {"Eval"}]
    rest = space.http("GET", f"{space.path(V1ALPHA2)}?limit=2&continue={page['metadata']['continue']}").body
    assert [item["metadata"]["name"] for item in rest["items"]] == ["job-2"]
    assert space.names(V1ALPHA2, field_selector="metadata.name=job-1") == ["job-1"]


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        ({"Boss": 1}, ["Boss", f"is not a replica type; {TYPES}"]),
        ({"Chief": 1, "Master": 1}, ["Master", "Chief"]),
        ({"Eval": 1, "Evaluator": 1}, ["Eval"]),
        ({"Local": 1, "Worker": 1}, ["Local"]),
        ({"Worker": -1}, ["replicas"]),
    ],
)
def test_a_bad_job_is_refused_in_the_older_version_too(
    space: Space, replicas: dict[str, int], words: list[str]
) -> None:
    with refused(InvalidError, "tfReplicaSpecs", *words):
        space.create(V1ALPHA2, older("bad", **replicas))


MULTIKUEUE = "kueue.x-k8s.io/multikueue"
QUEUED = {"managedBy": "kubeflow.org/training-operator", "schedulingPolicy": {"queue": "research", "minAvailable": 1}}


def test_what_cant_be_changed_in_v1_cant_be_in_the_older_version(space: Space) -> None:
    job = tfjob("fixed", Worker=1)
    space.create(TFJOBS, {**job, "spec": {**job["spec"], "network": "PerJob", "runPolicy": QUEUED}})
    shown = space.get(V1ALPHA2, "fixed")
    assert shown["spec"]["network"] == "PerJob"
    assert shown["spec"]["runPolicy"] == {**QUEUED, "schedulingPolicy": {"queue": "research"}}

    with refused(InvalidError, "spec.runPolicy.managedBy", f'to "{MULTIKUEUE}"'):
        space.patch(V1ALPHA2, "fixed", {"spec": {"runPolicy": {"managedBy": MULTIKUEUE}}})
    with refused(InvalidError, "spec.runPolicy.schedulingPolicy.queue", 'from "research" to "gold"'):
        space.patch(V1ALPHA2, "fixed", {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "gold"}}}})
    with refused(InvalidError, "spec.network", 'from "PerJob" to "PerReplica"'):
        space.patch(V1ALPHA2, "fixed", {"spec": {"network": "PerReplica"}})
    # A client that knows nothing of the field replaces the job without it.
    with refused(InvalidError, "spec.runPolicy.managedBy", 'to ""'):
        space.replace(V1ALPHA2, {**shown, "spec": {"tfReplicaSpecs": shown["spec"]["tfReplicaSpecs"]}})
    assert stored(space, "fixed")["spec"]["runPolicy"] == {"suspend": False, **QUEUED}
    assert stored(space, "fixed")["spec"]["network"] == "PerJob"


@pytest.mark.parametrize("annotation", ["training.kubeflow.org/v1-only", "training.kubeflow.org/v1alpha2-only"])
def test_an_annotation_changes_nothing_that_cant_be_changed(space: Space, annotation: str) -> None:
    space.create(TFJOBS, tfjob("annotated", Worker=1))
    policy = {"managedBy": MULTIKUEUE, "schedulingPolicy": {"queue": "gold"}}
    change = {"metadata": {"annotations": {annotation: json.dumps({"spec": {"runPolicy": policy}})}}}
    space.patch(TFJOBS, "annotated", change)
    assert not space.get(V1ALPHA2, "annotated")["spec"].get("runPolicy")
    space.patch(V1ALPHA2, "annotated", change)
    space.patch(V1ALPHA2, "annotated", {"metadata": {"labels": {"a": "b"}}})
    after = stored(space, "annotated")["spec"].get("runPolicy") or {}
    assert not {"managedBy", "schedulingPolicy"} & set(after)


BAD_PRESERVED: list[tuple[Json, str]] = [
    ({"runPolicy": {"backoffLimit": -7}}, "spec.runPolicy.backoffLimit"),
    ({"runPolicy": {"schedulingPolicy": {"minResources": {"cpu": "a lot"}}}}, "minResources[cpu]"),
    ({"successPolicy": "AllWorkers", "minSucceededWorkers": 1}, "spec.minSucceededWorkers"),
    ({"tensorBoard": {"logDir": "/logs", "volumeMounts": [{"name": "x", "mountPath": "/x"}]}}, "volumeMounts"),
]


@pytest.mark.parametrize(("preserved", "field"), BAD_PRESERVED)
def test_an_annotation_restores_nothing_that_v1_refuses(space: Space, preserved: Json, field: str) -> None:
    job = older("stepped", Worker=1)
    space.create(V1ALPHA2, job)
    change = {"metadata": {"annotations": {V1_ONLY: json.dumps({"spec": preserved})}}}
    with refused(ServerError, "TFJob", V1_ONLY, field):
        space.patch(V1ALPHA2, "stepped", change)
    bad = {**job, "metadata": {"name": "new", **change["metadata"]}}
    with refused(ServerError, V1_ONLY, field):
        space.create(V1ALPHA2, bad)
    assert space.http("POST", space.path(V1ALPHA2) + "?dryRun=All", bad).code == 500
    assert space.names(TFJOBS) == ["stepped"]
    assert not set(preserved) & set(stored(space, "stepped")["spec"])


def test_names_are_measured_as_v1_makes_them_and_unknown_fields_or_templates_of_an_annotation_dropped(
    space: Space,
) -> None:
    name = "n" * 52  # with -evaluator-0 one too many, with -eval-0 not
    with refused(InvalidError, "metadata.name"):
        space.create(V1ALPHA2, older(name, Eval=1))
    job = older(name, Worker=1)
    job["spec"]["successPolicy"] = "AllWorkers"
    answer = space.http("POST", space.path(V1ALPHA2), job)
    assert answer.code == 201
    assert 'unknown field \\"spec.successPolicy\\"' in answer.headers["Warning"]
    assert "successPolicy" not in stored(space, name)["spec"]
    job = older("stock", Worker=1, PS=1)
    del job["spec"]["tfReplicaSpecs"]["PS"]["template"]
    preserved = {"replicas": {"PS": {"template": {"spec": {"containers": []}}}}}
    space.create(V1ALPHA2, {**job, "metadata": {"name": "stock", "annotations": {V1_ONLY: json.dumps(preserved)}}})
    assert "template" not in stored(space, "stock")["spec"]["tfReplicaSpecs"]["PS"]


def test_tables_have_the_same_columns_and_an_outdated_replace_is_a_conflict_across_versions(space: Space) -> None:
    space.create(TFJOBS, tfjob("table"))
    space.set_status(TFJOBS, "table", {**PEER_STATUS, "ready": "2/2"})
    old, new = (space.http("GET", space.path(version), accept=TABLE).body for version in (V1ALPHA2, TFJOBS))
    assert old["columnDefinitions"] == new["columnDefinitions"]
    assert old["rows"][0]["cells"][:3] == new["rows"][0]["cells"][:3] == ["table", "Created", "2/2"]
    space.create(TFJOBS, tfjob("contended"))
    mine = space.get(V1ALPHA2, "contended")
    space.patch(TFJOBS, "contended", {"metadata": {"labels": {"a": "b"}}})
    with refused(ConflictError, "contended"):
        space.replace(V1ALPHA2, mine)


@pytest.mark.controlplane
def test_kubectl_reads_and_edits_the_older_version(space: Space) -> None:
    space.kubectl("create", "-f", "-", stdin=json.dumps(older("mnist", Worker=2, Eval=1)))
    assert "mnist" in space.kubectl("get", "tfjobs.v1alpha2.kubeflow.org")
    shown = json.loads(space.kubectl("get", "tfjobs.v1alpha2.kubeflow.org", "mnist", "-o", "json"))
    assert set(shown["spec"]["tfReplicaSpecs"]) == {"Worker", "Eval"}
    assert json.loads(space.kubectl("get", "tfj", "mnist", "-o", "json"))["apiVersion"] == "kubeflow.org/v1"
    change = '{"spec": {"cleanPodPolicy": "All"}}'
    space.kubectl("patch", "tfjobs.v1alpha2.kubeflow.org", "mnist", "--type=merge", "-p", change)
    assert stored(space, "mnist")["spec"]["runPolicy"]["cleanPodPolicy"] == "All"
    space.kubectl("apply", "-f", "-", stdin=json.dumps(older("applied", Worker=1)))
    space.kubectl("apply", "-f", "-", stdin=json.dumps(older("applied", Worker=3)))
    assert stored(space, "applied")["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    space.kubectl("delete", "tfjobs.v1alpha2.kubeflow.org", "mnist", "--wait=false")


def explicit(spec: Json, policy: str) -> Json:
    """The spec with what an API server fills in, where that is all it does."""
    filled: Json = {**spec, "tfReplicaSpecs": {}}
    for name, replica in spec["tfReplicaSpecs"].items():
        filled["tfReplicaSpecs"][name] = {"replicas": 1, "restartPolicy": policy, "template": TEMPLATE, **replica}
    return filled


UNCHECKED = [*settings.default.suppress_health_check, HealthCheck.function_scoped_fixture]
"""The checks that the profile of all tests leaves out (how fast examples come), and the shared namespace."""


def _round_trip(space: Space, version: Any, other: Any, spec: Json, policy: str) -> None:
    body = {"apiVersion": version.api_version, "kind": "TFJob", "metadata": {"generateName": "round-"}, "spec": spec}
    made = space.create(version, body)
    name = made["metadata"]["name"]
    assert made["spec"] == explicit(spec, policy)
    # There and back: the fields of the other version are written back unchanged.
    converted = space.get(other, name)
    space.replace(other, {**converted, "metadata": {**converted["metadata"], "labels": {"edited": "yes"}}})
    back = space.get(version, name)
    assert back["spec"] == made["spec"]
    assert back["metadata"].get("annotations") == made["metadata"].get("annotations")
    space.delete(version, name)


@settings(max_examples=12, suppress_health_check=UNCHECKED)
@given(spec=valid_v1_specs)
def test_v1_survives_v1alpha2_through_the_server(space: Space, spec: Json) -> None:
    _round_trip(space, TFJOBS, V1ALPHA2, spec, "Never")


@settings(max_examples=12, suppress_health_check=UNCHECKED)
@given(spec=valid_v1alpha2_specs)
def test_v1alpha2_survives_v1_through_the_server(space: Space, spec: Json) -> None:
    _round_trip(space, V1ALPHA2, TFJOBS, spec, "Always")
