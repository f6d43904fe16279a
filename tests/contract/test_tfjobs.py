from typing import Any

import pytest

from tests.contract.support import PODS, TFJOBS, Json, Space, pod, refused, tfjob
from tfoperator.kube.protocol.errors import BadRequestError, InvalidError

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
CONTAINER = {"name": "tensorflow", "image": "example.invalid/x:1"}


def with_worker(**changes: Any) -> Json:
    body = tfjob("bad")
    body["spec"]["tfReplicaSpecs"]["Worker"] |= changes
    return body


def with_containers(*containers: Json) -> Json:
    return with_worker(template={"spec": {"containers": list(containers)}})


def with_spec(**changes: Any) -> Json:
    body = tfjob("bad")
    body["spec"] |= changes
    return body


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (with_worker(replicas=-1), ("spec.tfReplicaSpecs", "Worker", "replicas", "-1")),
        (with_worker(replicas="two"), ("spec.tfReplicaSpecs", "Worker", "replicas", "integer")),
        (with_worker(restartPolicy="Sometimes"), ("restartPolicy", "Sometimes")),
        (with_containers(), ("Worker", "containers")),
        (with_containers({"name": "tensorflow"}), ("Worker", "containers[0]", "image")),
        (
            with_containers({**CONTAINER, "ports": [{"name": "http"}]}),
            ("containers[0].ports[0].containerPort", "Required"),
        ),
        (with_containers({**CONTAINER, "image": ""}), ("Worker", "containers[0]", "image")),
        (with_spec(tfReplicaSpecs=None), ("spec.tfReplicaSpecs",)),
        (with_spec(tfReplicaSpecs={}), ("spec.tfReplicaSpecs",)),
        (with_spec(runPolicy={"cleanPodPolicy": "Some"}), ("spec.runPolicy.cleanPodPolicy", "Some")),
        (with_spec(runPolicy={"backoffLimit": -1}), ("spec.runPolicy.backoffLimit",)),
        (with_spec(runPolicy={"activeDeadlineSeconds": -1}), ("spec.runPolicy.activeDeadlineSeconds",)),
        (with_spec(successPolicy="Any"), ("spec.successPolicy", "Any")),
    ],
)
def test_a_bad_tfjob_is_refused_with_the_field(space: Space, body: Json, words: tuple[str, ...]) -> None:
    with refused(InvalidError, *words):
        space.create(TFJOBS, body)


def test_the_causes_of_a_refusal_name_their_fields(space: Space) -> None:
    answer = space.http("POST", space.path(TFJOBS), with_worker(replicas=-1))
    details = answer.body["details"]
    cause, of_scale = details["causes"]
    assert (answer.code, details["kind"], details["group"]) == (422, "TFJob", "kubeflow.org")
    assert (cause["reason"], cause["field"]) == ("FieldValueInvalid", "spec.tfReplicaSpecs.Worker.replicas")
    assert "non-negative" in of_scale["message"], "the scale subresource looks at it, too"


def test_what_the_schema_defaults_is_filled_in_and_a_replica_type_that_is_null_is_as_good_as_absent(
    space: Space,
) -> None:
    body = with_worker(replicas=None)
    body["spec"]["tfReplicaSpecs"]["PS"] = None  # it panics the Go operator
    specs = space.create(TFJOBS, body)["spec"]["tfReplicaSpecs"]
    assert set(specs) == {"Worker"}
    assert (specs["Worker"]["replicas"], specs["Worker"]["restartPolicy"]) == (1, "Never")


def test_unknown_fields_are_dropped_with_a_warning_or_refused_by_those_who_want_strictness(space: Space) -> None:
    answer = space.http("POST", space.path(TFJOBS), with_spec(tfReplicaSpec="typo"))
    assert answer.code == 201
    assert "tfReplicaSpec" not in answer.body["spec"]
    assert 'unknown field \\"spec.tfReplicaSpec\\"' in answer.headers["Warning"]
    answer = space.http("POST", f"{space.path(TFJOBS)}?fieldValidation=Strict", with_spec(tfReplicaSpec="typo"))
    assert answer.code == 400
    assert 'unknown field "spec.tfReplicaSpec"' in answer.body["message"]


def test_the_pod_template_is_kept_whole(space: Space) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [{**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": 1}}}],
            "nodeSelector": {"gpu": "yes"},
        },
    }
    worker = space.create(TFJOBS, with_worker(template=template))["spec"]["tfReplicaSpecs"]["Worker"]
    assert worker["template"] == template


def test_who_manages_a_job_can_not_be_changed(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    with refused(InvalidError, "spec.runPolicy.managedBy", 'from "" to "kueue.x-k8s.io/multikueue"'):
        space.patch(TFJOBS, "a", {"spec": {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}})


@pytest.mark.parametrize(("before", "after"), [(None, "PerJob"), ("PerJob", None), ("PerReplica", "PerJob")])
def test_the_network_of_a_job_can_not_be_changed(space: Space, before: str | None, after: str | None) -> None:
    job = tfjob("a")
    space.create(TFJOBS, {**job, "spec": {**job["spec"], **({"network": before} if before else {})}})
    with refused(InvalidError, "spec.network", f'from "{before or ""}" to "{after or ""}"'):
        space.patch(TFJOBS, "a", {"spec": {"network": after}})
    kept = space.patch(TFJOBS, "a", {"spec": {"runPolicy": {"suspend": True}}, "status": {"network": "PerJob"}})
    assert kept["spec"].get("network") == before


def test_another_api_version_and_a_status_of_the_wrong_type_are_refused(space: Space) -> None:
    with refused(BadRequestError, "kubeflow.org/v9"):
        space.create(TFJOBS, {**tfjob("a"), "apiVersion": "kubeflow.org/v9"})
    space.create(TFJOBS, tfjob("a"))
    for field, wrong in (("conditions", "fine"), ("startTime", "yesterday")):
        with refused(InvalidError, f"status.{field}"):
            space.set_status(TFJOBS, "a", {field: wrong})


def test_a_table_has_the_columns_of_the_crd(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    conditions = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "True"}]
    space.set_status(TFJOBS, "a", {"conditions": conditions})

    table = space.http("GET", space.path(TFJOBS), accept=f"{TABLE},application/json").body

    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert table["kind"] == "Table"
    assert columns[:2] == [("Name", "string", 0), ("State", "string", 0)]
    assert columns[-1] == ("Age", "date", 0)
    (row,) = table["rows"]
    assert row["cells"][:2] == ["a", "Running"]
    assert row["cells"][-1].endswith("s")
    assert row["object"]["kind"] == "PartialObjectMetadata"


def test_a_table_of_pods_shows_readiness_status_and_restarts(space: Space) -> None:
    space.create(PODS, pod("a", nodeName="node-1"))
    waits = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "ready": False, "restartCount": 2}
    container = {"name": "main", "image": "x", "imageID": "", **waits}
    space.set_status(PODS, "a", {"phase": "Running", "podIP": "10.1.2.3", "containerStatuses": [container]})
    table = space.http("GET", space.path(PODS, "a"), accept=TABLE).body
    cells = dict(zip((c["name"] for c in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert (cells["Name"], cells["Ready"], cells["Status"], cells["Restarts"]) == ("a", "0/1", "CrashLoopBackOff", "2")
    assert (cells["IP"], cells["Node"]) == ("10.1.2.3", "node-1")


@pytest.mark.controlplane
def test_kubectl_gets_and_watches_tfjobs(space: Space) -> None:
    space.create(TFJOBS, tfjob("a"))
    with space.kubectl.lines("get", "tfjobs", "--watch") as lines:
        watched, first = next(lines), next(lines)
        running, stalled = ([{"type": kind, "status": "True"}] for kind in ("Running", "Stalled"))
        space.set_status(TFJOBS, "a", {"conditions": running, "operatorConditions": stalled, "replicaStatuses": {}})
        changed = next(lines)
    header, row = space.kubectl("get", "tfjobs").splitlines()
    wide, wide_row = space.kubectl("get", "tfj", "-o", "wide").splitlines()
    assert header.split() == watched.split() == ["NAME", "STATE", "PROGRESS", "ETA", "AGE"]
    assert first.split()[0] == "a"
    for line in (row, changed):
        assert line.split()[:2] == ["a", "Running"], "the last condition is one of the Go operator's"
    columns = "NAME STATE READY RESTARTS DISRUPTIONS PROGRESS ETA GOODPUT STALLED AGE"
    assert wide.split() == columns.split()
    assert wide_row[wide.index("STALLED") :].startswith("True")
    reached = 'jsonpath={.status.operatorConditions[?(@.type=="Stalled")].status}=True'
    assert "condition met" in space.kubectl("wait", f"--for={reached}", "tfjob/a", "--timeout=20s")


def test_discovery_names_the_resource(space: Space) -> None:
    groups = {group["name"] for group in space.http("GET", "/apis").body["groups"]}
    listed = space.http("GET", "/apis/kubeflow.org/v1").body["resources"]
    (resource,) = (r for r in listed if r["name"] == "tfjobs")

    assert {"kubeflow.org", "coordination.k8s.io"} <= groups
    assert (resource["kind"], resource["namespaced"], resource["shortNames"]) == ("TFJob", True, ["tfj"])
    assert {"create", "get", "list", "watch", "patch", "update", "delete", "deletecollection"} <= set(resource["verbs"])
    assert "tfjobs/status" in {r["name"] for r in listed}
    assert "v1" in space.http("GET", "/api").body["versions"]
    assert space.http("GET", "/version").body["major"] == "1"
