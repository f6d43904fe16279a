"""The CRD is applied with kubectl in every way that people use, and explains pod templates."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane, control_plane
from tests.support.eventually import eventually_holds
from tests.support.kubectl import Kubectl
from tests.support.manifests import tfjob
from tfoperator.api.replicas.names import CRD_NAME
from tfoperator.api.schema.crd import crd_yaml

pytestmark = pytest.mark.controlplane

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Without a CRD of TFJobs."""
    with control_plane() as running:
        yield running


@pytest.fixture
def kubectl(plane: ControlPlane) -> Iterator[Kubectl]:
    yield (runner := Kubectl(plane.kubeconfig, "default"))
    runner("delete", "crd", CRD_NAME, "--wait=true")


def established(kubectl: Kubectl) -> None:
    def served() -> None:
        status = json.loads(kubectl("get", "crd", CRD_NAME, "-o", "json")).get("status") or {}
        conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
        assert conditions.get("Established") == "True"
        kubectl("get", "tfjobs")

    eventually_holds(served, within=60, every=0.2, what="it is served")


@pytest.mark.parametrize("all_versions", [False, True], ids=["v1", "all"])
def test_it_can_be_applied_on_the_clients_side_and_then_on_the_servers_over_and_over(
    kubectl: Kubectl, all_versions: bool
) -> None:
    text = crd_yaml(all_versions=all_versions)
    assert "created" in kubectl("apply", "-f", "-", stdin=text)
    established(kubectl)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=text)
    annotations = json.loads(kubectl("get", "crd", CRD_NAME, "-o", "json"))["metadata"]["annotations"]
    assert len(annotations[LAST_APPLIED]) < 262_144
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    kubectl("apply", "--server-side", "-f", "-", stdin=text)


def test_it_may_follow_on_the_open_one_and_be_followed_by_it_and_jobs_stay(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=crd_yaml(open_templates=True))
    established(kubectl)
    odd = tfjob("odd", Worker=1)
    container = odd["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    container |= {"args": [1, 2.5], "command": "python train.py", "fieldOfTomorrow": {"a": 1}}
    kubectl("create", "-f", "-", stdin=json.dumps(odd))
    kubectl("apply", "--server-side", "-f", "-", stdin=crd_yaml())

    new = {**odd, "metadata": {"name": "new"}}

    def refuses() -> None:
        done = kubectl.run("create", "-f", "-", "--dry-run=server", stdin=json.dumps(new))
        assert 'unknown field "spec.tfReplicaSpecs.Worker.template.spec.containers[0].fieldOfTomorrow"' in done.stderr

    eventually_holds(refuses, within=30, every=0.2, what="the new schema holds")
    # A stored job stays as it is: its status, labels and other parts of its spec can be written.
    status = {"status": {"conditions": [{"type": "Created", "status": "True"}]}}
    kubectl("patch", "tfjob", "odd", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    kubectl("label", "tfjob", "odd", "a=b")
    kubectl("patch", "tfjob", "odd", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": true}}}')
    kubectl("scale", "tfjob", "odd", "--replicas=2")
    job = json.loads(kubectl("get", "tfjob", "odd", "-o", "json"))
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert (job["status"]["conditions"][0]["type"], worker["replicas"]) == ("Created", 2)
    assert worker["template"]["spec"]["containers"][0]["args"] == [1, 2.5]
    kubectl("apply", "--server-side", "-f", "-", stdin=crd_yaml(open_templates=True))


def test_kubectl_explains_every_level_of_a_template(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=crd_yaml())
    established(kubectl)
    template = "tfjob.spec.tfReplicaSpecs.template"

    def explained() -> None:
        assert "whole number" in kubectl("explain", f"{template}.spec.containers.resources.limits")

    eventually_holds(explained, within=60, every=0.5, what="the schema is published")
    for path, words in (
        (f"{template}.spec.containers", "Container image, such as tensorflow/tensorflow"),
        (f"{template}.spec.tolerations.effect", "NoSchedule, PreferNoSchedule or NoExecute"),
        (f"{template}.spec.volumes", "Keys of a ConfigMap as files."),
        (f"{template}.metadata.labels", "Labels of the object"),
        ("tfjob.spec.checkpoint.volume", "PersistentVolumeClaim of the namespace."),
        ("tfjob.status.usage.resources", ""),
    ):
        assert words in " ".join(kubectl("explain", path).split()), path
