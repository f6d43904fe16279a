from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract.support import PODS, Space, pod, refused
from tests.support.eventually import eventually
from tfoperator.kube.protocol.errors import ConflictError, InvalidError

CONTAINER = {"name": "main", "image": "example.invalid/x:1"}
RULE = {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [*range(128)]}}


def ruled(**changes: Any) -> dict[str, Any]:
    """A spec whose container has a rule for its restarts, changed."""
    return {"containers": [{**CONTAINER, "restartPolicy": "Never", "restartPolicyRules": [{**RULE, **changes}]}]}


def bind(space: Space, name: str, node: str) -> tuple[int, Any]:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    answer = space.http("POST", space.path(PODS, name, "binding"), body)
    return answer.code, answer.body


def test_what_a_pod_leaves_out_is_filled_in(space: Space) -> None:
    spec = space.create(PODS, pod("a", containers=[{**CONTAINER, "ports": [{"containerPort": 2222}]}]))["spec"]

    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    (container,) = spec["containers"]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["ports"] == [{"containerPort": 2222, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("image", "policy"), [("x", "Always"), ("x:latest", "Always"), ("x:1", "IfNotPresent"), ("host:5000/x", "Always")]
)
def test_an_image_without_a_version_is_always_pulled(space: Space, image: str, policy: str) -> None:
    made = space.create(PODS, pod("a", containers=[{"name": "main", "image": image}]))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("requests", "limits", "quality"),
    [({}, {}, "BestEffort"), ({"cpu": "1"}, {}, "Burstable"), ({}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed")],
)
def test_the_quality_of_service_follows_from_the_resources(
    space: Space, requests: dict[str, str], limits: dict[str, str], quality: str
) -> None:
    resources = {"requests": requests, "limits": limits}
    made = space.create(PODS, pod("a", containers=[{**CONTAINER, "resources": resources}]))
    assert made["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"image": "x"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "main"}]}, "spec.containers[0].image"),
        ({"containers": [CONTAINER, CONTAINER]}, "spec.containers[1].name"),
        ({"containers": [{**CONTAINER, "name": "Main_1"}]}, "spec.containers[0].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"containers": [{**CONTAINER, "restartPolicy": "Sometimes"}]}, "spec.containers[0].restartPolicy"),
        ({"containers": [{**CONTAINER, "restartPolicyRules": [RULE]}]}, "spec.containers[0].restartPolicy"),
        (ruled(action="Stop"), "spec.containers[0].restartPolicyRules[0].action"),
        (ruled(exitCodes=None), "spec.containers[0].restartPolicyRules[0].exitCodes"),
        (ruled(exitCodes={"operator": "Over", "values": [1]}), "restartPolicyRules[0].exitCodes.operator"),
        (ruled(exitCodes={"operator": "In", "values": [*range(256)]}), "restartPolicyRules[0].exitCodes.values"),
        ({"dnsPolicy": "Magic"}, "spec.dnsPolicy"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds"),
        ({"hostname": "a.b", "subdomain": "c"}, "spec.hostname"),
        ({"hostname": "a", "subdomain": "B"}, "spec.subdomain"),
        ({"hostname": "h" * 64}, "spec.hostname"),
        ({"containers": [{**CONTAINER, "imagePullPolicy": "Maybe"}]}, "spec.containers[0].imagePullPolicy"),
        ({"containers": [{**CONTAINER, "env": [{"value": "x"}]}]}, "spec.containers[0].env[0].name"),
        ({"containers": [{**CONTAINER, "ports": [{"containerPort": 70000}]}]}, "ports[0].containerPort"),
        ({"containers": [{**CONTAINER, "ports": [{"name": "BIG", "containerPort": 1}]}]}, "ports[0].name"),
        (
            {"containers": [{**CONTAINER, "volumeMounts": [{"name": "nope", "mountPath": "/x"}]}]},
            "spec.containers[0].volumeMounts[0].name",
        ),
        ({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]}, "spec.volumes[1].name"),
    ],
)
def test_an_invalid_pod_is_refused_with_the_field(space: Space, spec: dict[str, Any], field: str) -> None:
    with refused(InvalidError, field):
        space.create(PODS, pod("a", **spec))


def test_every_problem_is_a_cause_and_a_rule_for_restarts_is_kept(space: Space) -> None:
    answer = space.http("POST", space.path(PODS), pod("a", containers=[{}], restartPolicy="Sometimes"))
    fields = {cause["field"] for cause in answer.body["details"]["causes"]}
    assert {"spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy"} <= fields
    assert (answer.code, answer.body["reason"], answer.body["details"]["kind"]) == (422, "Invalid", "Pod")
    [container] = space.create(PODS, pod("a", restartPolicy="Never", **ruled()))["spec"]["containers"]
    assert (container["restartPolicy"], container["restartPolicyRules"]) == ("Never", [RULE])


def test_a_pods_spec_is_fixed_but_for_its_images(space: Space) -> None:
    space.create(PODS, pod("a"))
    renamed = space.strategic(PODS, "a", {"spec": {"containers": [{"name": "main", "image": "y"}]}})
    with refused(InvalidError, "spec", "pod updates may not change fields"):
        space.patch(PODS, "a", {"spec": {"restartPolicy": "Never"}})
    with refused(InvalidError, "spec"):
        space.patch(PODS, "a", {"spec": {"nodeName": "elsewhere"}})
    assert renamed["spec"]["containers"][0]["image"] == "y"


def test_the_deadline_of_a_running_pod_can_be_set_and_lowered_only(space: Space) -> None:
    made = space.create(PODS, pod("a", nodeName="node-1"))
    space.set_status(PODS, "a", {"phase": "Running"})
    version = space.get(PODS, "a")["metadata"]["resourceVersion"]

    def set_deadline(seconds: int | None, **metadata: str) -> dict[str, Any]:
        marked = {"uid": made["metadata"]["uid"], "annotations": {"stopped": "yes"}, **metadata}
        return space.patch(PODS, "a", {"metadata": marked, "spec": {"activeDeadlineSeconds": seconds}})

    answer = set_deadline(3600, resourceVersion=version)
    assert (answer["spec"]["activeDeadlineSeconds"], answer["status"]["phase"]) == (3600, "Running")
    with refused(ConflictError):
        set_deadline(1, resourceVersion=version)
    for wrong in (3601, None):
        with refused(InvalidError, "spec.activeDeadlineSeconds"):
            set_deadline(wrong)
    assert set_deadline(1)["spec"]["activeDeadlineSeconds"] == 1
    with refused(InvalidError, "spec.activeDeadlineSeconds"):
        set_deadline(0)


def test_a_pod_is_bound_once(space: Space) -> None:
    space.create(PODS, pod("a"))

    assert bind(space, "a", "node-1")[0] == 201
    again, why = bind(space, "a", "node-2")

    bound = space.get(PODS, "a")
    assert (again, why["reason"]) == (409, "Conflict")
    assert bound["spec"]["nodeName"] == "node-1"
    assert {"PodScheduled": "True"}.items() <= {c["type"]: c["status"] for c in bound["status"]["conditions"]}.items()


def test_a_bound_pod_ends_when_its_node_says_so_and_another_delete_can_only_shorten_its_grace_period(
    space: Space,
) -> None:
    space.create(PODS, pod("a", nodeName="node-1"))
    space.delete(PODS, "a")
    ending = space.get(PODS, "a")["metadata"]
    assert ending["deletionTimestamp"] > ending["creationTimestamp"]
    left = [ending["deletionGracePeriodSeconds"]]
    for seconds in (20, 25, 5):
        space.delete(PODS, "a", grace_period_seconds=seconds)
        left.append(space.get(PODS, "a")["metadata"]["deletionGracePeriodSeconds"])
    assert left == [30, 20, 20, 5]
    space.delete(PODS, "a", grace_period_seconds=0)
    assert not space.exists(PODS, "a")
    space.create(PODS, pod("p", nodeName="node-1"))
    for seconds in (2**31 - 1, 0):  # longer than anybody lives
        assert space.http("DELETE", f"{space.path(PODS)}/p?gracePeriodSeconds={seconds}").code == 200


def test_a_delete_that_shortens_a_grace_period_beyond_its_end_moves_the_deletion_to_the_present(space: Space) -> None:
    """Therefore a pod that a finalizer keeps after its end no longer shows when its deletion was requested."""
    held = pod("a", nodeName="node-1")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    space.create(PODS, held)
    space.delete(PODS, "a")

    def shown() -> tuple[datetime, int]:
        metadata = space.get(PODS, "a")["metadata"]
        return datetime.fromisoformat(metadata["deletionTimestamp"]), metadata["deletionGracePeriodSeconds"]

    until, seconds = shown()
    requested = until - timedelta(seconds=seconds)
    eventually(lambda: datetime.now(UTC) >= requested + timedelta(seconds=3), what="two seconds have passed")
    for period, left in ((2, 1), (0, 0)):
        space.delete(PODS, "a", grace_period_seconds=period)
        moved, seconds = shown()
        assert seconds == left
        assert requested + timedelta(seconds=3) <= moved < until, "it is the time of the last request"
    space.patch(PODS, "a", {"metadata": {"finalizers": None}})
    assert not space.exists(PODS, "a")


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
def test_a_pod_without_a_process_ends_at_once_and_is_the_answer(space: Space, phase: str) -> None:
    made = space.create(PODS, pod("a", **({"nodeName": "node-1"} if phase else {})))
    if phase:
        space.set_status(PODS, "a", {"phase": phase})
    answer = space.http("DELETE", space.path(PODS, "a"))
    assert (answer.code, answer.body["kind"]) == (200, "Pod")
    assert answer.body["metadata"]["uid"] == made["metadata"]["uid"]
    assert not space.exists(PODS, "a")


def test_a_log_needs_a_container_that_is_there(space: Space) -> None:
    space.create(PODS, pod("a", containers=[CONTAINER, {**CONTAINER, "name": "other"}]))
    several = space.http("GET", space.path(PODS, "a", "log"))
    unknown = space.http("GET", f"{space.path(PODS, 'a', 'log')}?container=nope")
    missing = space.http("GET", space.path(PODS, "nope", "log"))
    assert (several.code, unknown.code, missing.code) == (400, 400, 404)
    assert "choose one of: [main other]" in several.body["message"]


def test_an_eviction_deletes_and_a_status_for_another_pod_of_the_same_name_is_refused(space: Space) -> None:
    space.create(PODS, pod("a"))
    with refused(InvalidError, "metadata.uid"):
        body = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"phase": "Failed"}}
        space.patch(PODS, "a", body, subresource="status")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    answer = space.http("POST", space.path(PODS, "a", "eviction"), body)
    assert answer.code == 201
    assert not space.exists(PODS, "a")
    held = pod("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    space.create(PODS, held)
    body["metadata"]["name"] = "held"
    rehearsed = {**body, "deleteOptions": {"dryRun": ["All"]}}
    assert space.http("POST", space.path(PODS, "held", "eviction"), rehearsed).code == 201
    assert not disruptions(space.get(PODS, "held"))
    assert space.http("POST", space.path(PODS, "held", "eviction"), body).code == 201
    evicted = space.get(PODS, "held")
    assert evicted["metadata"]["deletionTimestamp"]
    assert disruptions(evicted) == [("True", "EvictionByEvictionAPI", "Eviction API: evicting")]
    space.patch(PODS, "held", {"metadata": {"finalizers": None}})


def disruptions(obj: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return the disruptions of a pod, by its conditions."""
    conditions = obj["status"].get("conditions", ())
    return [(c["status"], c["reason"], c["message"]) for c in conditions if c["type"] == "DisruptionTarget"]


@pytest.mark.parametrize("digits", [20, 400])
def test_numbers_of_pods_have_room_in_64_bits(space: Space, digits: int) -> None:
    number = int("9" * digits)
    context = {"securityContext": {"runAsUser": number}}
    assert space.http("POST", space.path(PODS), pod("none", **context)).code == 400
    space.create(PODS, pod("p"))
    path = f"{space.path(PODS)}/p"
    assert space.http("DELETE", f"{path}?gracePeriodSeconds={number}").code == 400
    assert space.http("GET", f"{path}/log?tailLines={number}").code == 400
    assert space.exists(PODS, "p")
