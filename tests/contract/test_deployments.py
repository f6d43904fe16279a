"""Deployments: what the operator makes of `spec.tensorBoard`, and what kubectl shows of it."""

import json
from typing import Any

import pytest

from tests.contract.support import Json, Space, refused
from tests.support.eventually import eventually
from tfoperator.kube.protocol.errors import BadRequestError, ConflictError, InvalidError
from tfoperator.kube.protocol.resources import DEPLOYMENTS

LABELS = {"app": "board"}


def deployment(name: str = "board", **spec: Any) -> Json:
    container = {
        "name": "main",
        "image": "example.invalid/x:1",
        "readinessProbe": {"httpGet": {"port": "http"}},
        "ports": [{"name": "http", "containerPort": 6006}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"a": "b"}},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


def test_it_is_filled_with_defaults(space: Space) -> None:
    spec = space.create(DEPLOYMENTS, deployment())["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert pod["terminationGracePeriodSeconds"] == 30
    assert "tolerations" not in pod
    probe = pod["containers"][0]["readinessProbe"]
    assert probe["httpGet"] == {"path": "/", "port": "http", "scheme": "HTTP"}
    assert (probe["timeoutSeconds"], probe["periodSeconds"], probe["failureThreshold"]) == (1, 10, 3)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"selector": None}, "spec.selector"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels"),
        ({"template": {"metadata": {"labels": LABELS}, "spec": {"containers": []}}}, "spec.template.spec.containers"),
        ({"replicas": -1}, "spec.replicas"),
        ({"strategy": {"type": "Sometimes"}}, "spec.strategy"),
    ],
)
def test_what_can_not_be_is_refused(space: Space, change: Json, field: str) -> None:
    with refused(InvalidError, field):
        space.create(DEPLOYMENTS, deployment(**change))


def test_its_pods_are_restarted_always_a_wrong_type_is_refused_and_a_strategy_of_recreate_has_no_parameters(
    space: Space,
) -> None:
    body = deployment()
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    with refused(InvalidError, "spec.template.spec.restartPolicy", "Always"):
        space.create(DEPLOYMENTS, body)
    with refused(BadRequestError):
        space.create(DEPLOYMENTS, deployment(replicas="many"))
    created = space.create(DEPLOYMENTS, deployment(strategy={"type": "Recreate"}))
    assert created["spec"]["strategy"] == {"type": "Recreate"}


def test_a_new_template_is_another_generation_and_the_selector_stays(space: Space) -> None:
    created = space.create(DEPLOYMENTS, deployment(replicas=0))
    named = {"name": "main", "env": [{"name": "A", "value": "1"}]}
    merged = space.strategic(DEPLOYMENTS, "board", {"spec": {"template": {"spec": {"containers": [named]}}}})
    [container] = merged["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == ("example.invalid/x:1", named["env"]), "merged by name"
    change = {
        "metadata": {key: merged["metadata"][key] for key in ("uid", "resourceVersion")},
        "spec": {"template": {"spec": {"containers": [{**container, "image": "example.invalid/x:2"}]}}},
    }
    changed = space.patch(DEPLOYMENTS, "board", change)
    assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "example.invalid/x:2"
    assert changed["metadata"]["generation"] == created["metadata"]["generation"] + 2
    other = {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}}}
    with refused(InvalidError, "spec.selector", "immutable"):
        space.patch(DEPLOYMENTS, "board", {"spec": other})
    with refused(ConflictError):
        space.patch(DEPLOYMENTS, "board", change)


def test_its_status_has_an_endpoint_of_its_own(space: Space) -> None:
    created = space.create(DEPLOYMENTS, {**deployment(replicas=0), "status": {"replicas": 7}})
    assert not (created.get("status") or {}).get("replicas")
    status = {"availableReplicas": 1, "readyReplicas": 1, "replicas": 1}
    changed = space.patch(DEPLOYMENTS, "board", {"status": status, "spec": {"replicas": 5}}, subresource="status")
    assert changed["status"].items() >= status.items()
    assert changed["spec"]["replicas"] == 0


@pytest.mark.controlplane
def test_kubectl_applies_shows_and_deletes_it(space: Space) -> None:
    created = space.kubectl("apply", "-f", "-", stdin=json.dumps(deployment(replicas=0)))
    header, row = space.kubectl("get", "deploy").splitlines()
    wide = space.kubectl("get", "deployments", "-o", "wide").splitlines()
    assert created == "deployment.apps/board created\n"
    assert header.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == ["board", "0/0", "0", "0"]
    assert wide[0].split()[-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert wide[1].split()[-3:] == ["main", "example.invalid/x:1", "app=board"]
    assert space.kubectl("delete", "deployment", "board").startswith('deployment.apps "board" deleted')
    eventually(lambda: not space.exists(DEPLOYMENTS, "board"), what="it is gone")
